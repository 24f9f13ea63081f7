"""Builds the compiled kernels with the package. Without a C compiler the package installs all the same, only slower."""

from setuptools import Extension, setup

HEADERS = ("attention_kernel", "attention_forward", "attention_backward", "random", "threads")

setup(
    ext_modules=[
        Extension(
            "edge_transformer.native._kernels",
            sources=["src/edge_transformer/native/attention.c", "src/edge_transformer/native/elementwise.c"],
            depends=[f"src/edge_transformer/native/{name}.h" for name in HEADERS],
            extra_compile_args=["-O3", "-std=gnu11", "-fno-trapping-math", "-fno-math-errno"],
            libraries=["m", "pthread"],
            optional=True,
        )
    ]
)
