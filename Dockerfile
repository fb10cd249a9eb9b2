# Two images from one file: `service` (API, prepare worker, janitor, migrations; no torch) and `trainer`.
FROM python:3.11-slim AS service
ENV PIP_NO_CACHE_DIR=1 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# bubblewrap runs the source of python graders.
RUN apt-get update && apt-get install --yes --no-install-recommends bubblewrap \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --system --uid 10001 --create-home castalia
WORKDIR /app
COPY pyproject.toml README.md LICENSE ./
COPY api api
COPY worker worker
COPY core core
COPY castalia castalia
COPY migrations migrations
RUN pip install '.[s3,graders]'
USER castalia
# Not /app: what is imported is what was installed.
WORKDIR /home/castalia
EXPOSE 8000
CMD ["castalia", "api", "--host", "0.0.0.0"]

FROM service AS trainer
USER root
WORKDIR /app
RUN pip install '.[s3,train]' && install --directory --owner castalia /runs
USER castalia
WORKDIR /home/castalia
VOLUME /runs
CMD ["castalia", "worker", "--queue", "train"]
