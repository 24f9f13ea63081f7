# The command line, for training and for serving, on CPUs:
#   docker build --build-arg COMMIT=$(git rev-parse HEAD) -t edge-transformer .
#   docker run --rm -v "$PWD:/data" edge-transformer train relations --data families --out runs/families
# For GPUs: --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu130, and docker run --gpus all.

FROM python:3.12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
ARG COMMIT=
RUN if [ -n "$COMMIT" ]; then echo "$COMMIT" > src/edge_transformer/io/commit.txt; fi
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY constraints.txt /tmp/constraints.txt
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir -c /tmp/constraints.txt --extra-index-url "$TORCH_INDEX" /wheels/*.whl
RUN useradd --create-home user && mkdir /data && chown user /data
USER user
WORKDIR /data
ENTRYPOINT ["edge-transformer"]
CMD ["--help"]
