# One image for each process: COMPONENT is router, worker, operator or planner; `all` holds what the four need, for
# tests and for a cluster that would rather keep one image.  `make image` prepares what is copied from dist/image: the
# wheels of the dependencies, as requirements/image pins them, and the project's own.  Nothing is downloaded in here.
#
# Kernels are compiled now, for a fixed processor, so that a container with a read-only root file system compiles
# nothing.  Numba recognises a kernel by the time stamp of its source to the nanosecond, of which layers keep the
# seconds: hence the stamps are set first.
ARG BASE_IMAGE=python:3.11-slim-bookworm
ARG COMPONENT=router

FROM ${BASE_IMAGE} AS dependencies
ARG COMPONENT
COPY dist/image/dependencies /wheels/
COPY requirements/image/${COMPONENT}.txt /wheels/requirements.txt
RUN ln -s /wheels/pip-*.whl /installer \
    && python3 -m venv --without-pip /opt/inferplane \
    && /opt/inferplane/bin/python /installer/pip install --no-cache-dir --no-index \
        --disable-pip-version-check --root-user-action=ignore --no-deps --find-links /wheels -r /wheels/requirements.txt

FROM dependencies AS project
ARG KERNEL_CPU=x86-64-v3
ARG SOURCE_DATE_EPOCH=1767225600
ENV NUMBA_CPU_NAME=${KERNEL_CPU} NUMBA_CPU_FEATURES= NUMBA_CACHE_DIR=/opt/inferplane/kernels PYTHONDONTWRITEBYTECODE=1
COPY tools/sbom.py /build/
COPY dist/image/project /build/wheels/
# /layer gets what the project adds to the dependencies, at the paths where it will be
RUN /opt/inferplane/bin/python /installer/pip install --no-cache-dir --no-index --no-compile \
        --disable-pip-version-check --root-user-action=ignore --no-deps --root /layer /build/wheels/*.whl \
    && find /layer -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH}" {} + \
    && cp -a /layer/. / \
    && /opt/inferplane/bin/python -c 'from inferplane_router.core.warming import warm; warm()' \
    && cp -a /opt/inferplane/kernels /layer/opt/inferplane/ \
    && /opt/inferplane/bin/python -m compileall -q --invalidation-mode unchecked-hash /layer -s /layer -p / \
    && mkdir -p /layer/usr/share/inferplane \
    && /opt/inferplane/bin/python /build/sbom.py > /layer/usr/share/inferplane/sbom.cdx.json \
    && find /layer/opt/inferplane/bin -type f -exec chmod 755 {} +

FROM ${BASE_IMAGE} AS runtime
ARG KERNEL_CPU=x86-64-v3
# an installer is of use to an intruder alone; libraries ask for the user's name, whatever number a cluster runs us as
RUN echo 'inferplane:x:65532:65532::/tmp:/usr/sbin/nologin' >> /etc/passwd \
    && rm -rf /usr/local/lib/python3*/site-packages/pip* /usr/local/lib/python3*/site-packages/setuptools* \
        /usr/local/lib/python3*/ensurepip /usr/local/bin/pip*
COPY --from=dependencies /opt/inferplane /opt/inferplane
COPY --from=project /layer/ /
ENV PATH=/opt/inferplane/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/tmp \
    USER=inferplane \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    NUMBA_CACHE_DIR=/opt/inferplane/kernels \
    NUMBA_CACHE_LOCATOR_CLASSES=inferplane_engine.kernel_cache.ReadOnlyCacheLocator \
    NUMBA_CPU_NAME=${KERNEL_CPU} \
    NUMBA_CPU_FEATURES=
USER 65532:65532
WORKDIR /tmp

FROM runtime AS component-router
CMD ["python", "-m", "inferplane_router", "--config", "/etc/inferplane/router.yaml"]

FROM runtime AS component-worker
CMD ["python", "-m", "inferplane_workers.agent"]

FROM runtime AS component-operator
CMD ["python", "-m", "inferplane_operator"]

FROM runtime AS component-planner
CMD ["python", "-m", "inferplane_planner"]

FROM runtime AS component-all
CMD ["python", "-c", "raise SystemExit('this image holds every component: name one as the command')"]

FROM component-${COMPONENT}
ARG COMPONENT
ARG VERSION=
ARG REVISION=
LABEL org.opencontainers.image.title="Inferplane ${COMPONENT}" \
      org.opencontainers.image.description="A Kubernetes-native control plane for LLM inference" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0"
