# Everything that the README's two commands need, installed; the first one runs by default:
#   docker build -t searchgym . && docker run --rm -it -v searchgym-runs:/searchgym/runs searchgym
#   docker run --rm -v searchgym-runs:/searchgym/runs searchgym cat runs/quickstart/report.html > report.html
#   docker run --rm -it searchgym make test
FROM python:3.12-slim-bookworm
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends chromium-headless-shell git libatomic1 make \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home gym && mkdir -p /searchgym/runs && chown -R gym /searchgym
USER gym
WORKDIR /searchgym
# PyPI's PyTorch for Linux brings four gigabytes of CUDA; its makers' other build does not.
ENV PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu PIP_DISABLE_PIP_VERSION_CHECK=1
COPY --chown=gym . .
RUN make .venv/.installed .venv/.text && rm -rf ~/.cache/pip
ENV PATH=/searchgym/.venv/bin:$PATH
CMD ["make", "quickstart"]
