{{/* list ROOT LABELS: ours and those that a Grafana or a Prometheus looks for; ours win. */}}
{{- define "inferplane.monitoringLabels" -}}
{{- toYaml (merge (include "inferplane.labels" (list (index . 0) "monitoring") | fromYaml) (index . 1)) -}}
{{- end -}}

{{/* A page of one of our Pods.  What it says of itself (namespace, service, pool) is kept: honorLabels. */}}
{{- define "inferplane.metricsEndpoint" -}}
port: metrics
interval: {{ .Values.monitoring.podMonitors.interval }}
honorLabels: true
{{- end -}}
