#!/bin/bash
# Writes every generated file, or with --list names the paths that hold them.
set -euo pipefail
python=.venv/bin/python

generated=(crds/inferplane_api/proto crds/manifests docs/reference/custom-resources.md docs/reference/values.md docs/reference/metrics.md helm/inferplane/files
           docs/reference/cli.md
           workers/inferplane_engine/sim/model tests/operator/golden tests/operator_reconcile/golden tests/helm/golden)

if [ "${1:-}" = --list ]; then
    printf '%s\n' "${generated[@]}"
    exit
fi

"$python" -m grpc_tools.protoc -I crds --python_out=crds --pyi_out=crds --grpc_python_out=crds \
    inferplane_api/proto/worker.proto inferplane_api/proto/router.proto inferplane_api/proto/ext_proc.proto
"$python" -m inferplane_api.schema crds/manifests docs/reference/custom-resources.md
"$python" tools/chart_values.py
"$python" -m inferplane_observability .
"$python" tools/cli_reference.py
"$python" tools/make_sim_model.py
INFERPLANE_REGENERATE_GOLDEN=1 "$python" -m pytest --quiet \
    tests/operator/test_rendered_templates_match_golden_files.py tests/operator/test_sglang_is_rendered_as_reviewed.py \
    tests/operator/test_a_worker_on_several_nodes_is_one_group.py \
    tests/operator_reconcile/test_objects_match_golden_files.py \
    tests/helm/test_rendering_is_what_was_reviewed.py
