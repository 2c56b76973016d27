{{/* The router's configuration file; design note 0001 lists its keys. */}}
{{- define "inferplane.routerConfig" -}}
listen:
  http: "0.0.0.0:8000"
  grpc: "0.0.0.0:9000"
  metrics: "0.0.0.0:9090"
{{- if .Values.gateway.inferencePool.enabled }}
  extProc: "0.0.0.0:9002"
{{- end }}
discovery:
  kubernetes:
    namespace: {{ .Values.watchNamespace | quote }}
cacheDir: /var/cache/inferplane
drainTimeoutS: {{ .Values.gateway.drainTimeoutS }}
lameDuckS: {{ .Values.gateway.lameDuckS }}
{{- if .Values.gateway.console }}
console: true
{{- end }}
{{- if gt (int .Values.gateway.processes) 1 }}
processes: {{ int .Values.gateway.processes }}
{{- end }}
{{- with .Values.gateway.limits }}
limits: {{ toJson . }}{{/* YAML would write large numbers with an exponent */}}
{{- end }}
{{- end -}}

{{/* Where clients inside the cluster connect. */}}
{{- define "inferplane.gatewayUrl" -}}
{{- $port := int .Values.gateway.service.port -}}
{{- $host := printf "http://%s.%s.svc" (include "inferplane.named" (list . "gateway")) (include "inferplane.namespace" .) -}}
{{- .Values.gateway.url | default (eq $port 80 | ternary $host (printf "%s:%d" $host $port)) -}}
{{- end -}}
