# Everything that the README's two commands need, installed; the first one runs by default:
#   docker build -t searchgym . && docker run --rm -it -v searchgym-runs:/searchgym/runs searchgym
#   docker run --rm -it searchgym make test
FROM python:3.12-slim-bookworm
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends chromium-headless-shell git make \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home gym && mkdir -p /searchgym/runs && chown -R gym /searchgym
USER gym
WORKDIR /searchgym
COPY --chown=gym . .
RUN make .venv/.installed .venv/.text && rm -rf ~/.cache/pip
ENV PATH=/searchgym/.venv/bin:$PATH
CMD ["make", "quickstart"]
