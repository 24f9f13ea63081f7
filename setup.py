"""Builds the compiled kernels with the package. Without a C compiler the package installs all the same, only slower."""

from setuptools import Extension, setup

FOLDER = "src/edge_transformer/ops/csrc"
SOURCES = ("attention", "decoding", "elementwise", "threads")
HEADERS = (
    "attention_kernel",
    "attention_forward",
    "attention_backward",
    "decoding_kernel",
    "random",
    "threads",
    "vectors",
)

setup(
    ext_modules=[
        Extension(
            "edge_transformer.ops._kernels",
            sources=[f"{FOLDER}/{name}.c" for name in SOURCES],
            depends=[f"{FOLDER}/{name}.h" for name in HEADERS],
            extra_compile_args=["-O3", "-std=gnu11", "-fno-trapping-math", "-fno-math-errno"],
            libraries=["m", "pthread"],
            optional=True,
        )
    ]
)
