# The program in a small image; the tree to search is mounted at /tree, an index volume at /cache:
#
#     docker build -t quarry .
#     docker run --rm -v "$PWD:/tree:ro" -v quarry-cache:/cache quarry search "retry with backoff"
FROM rust:1.91-slim-bookworm AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ make \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN cargo build --profile dist --locked -p quarry-cli

FROM debian:bookworm-slim
RUN useradd --uid 1000 quarry && install -d -o quarry -g quarry /cache /tree
COPY --from=build /source/target/dist/quarry /usr/local/bin/quarry
COPY crates/embed/models/best /usr/local/share/quarry/models/best
USER 1000
ENV XDG_CACHE_HOME=/cache
WORKDIR /tree
ENTRYPOINT ["quarry"]
