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
{{- if .Values.gateway.tls.secretName }}
tls: {certificate: /etc/inferplane-tls/tls.crt, key: /etc/inferplane-tls/tls.key}
{{- end }}
cacheDir: /var/cache/inferplane
drainTimeoutS: {{ .Values.gateway.drainTimeoutS }}
lameDuckS: {{ .Values.gateway.lameDuckS }}
{{- if .Values.gateway.console }}
console: true
{{- end }}
{{- if gt (int .Values.gateway.processes) 1 }}
processes: {{ int .Values.gateway.processes }}
{{- end }}
{{- with .Values.gateway.records }}
{{- if .enabled }}
records: {folder: /var/cache/inferplane/records, maxBytes: {{ int .maxBytes }}}
{{- end }}
{{- end }}
{{- with .Values.tracing }}
{{- if .endpoint }}
tracing:
  endpoint: {{ .endpoint | quote }}
  ratio: {{ toJson .ratio }}
{{- end }}
{{- end }}
{{- with .Values.gateway.limits }}
limits: {{ toJson . }}{{/* YAML would write large numbers with an exponent */}}
{{- end }}
{{- end -}}

{{/* What the OpenAI surface speaks. */}}
{{- define "inferplane.gatewayScheme" -}}
{{- ternary "https" "http" (ne .Values.gateway.tls.secretName "") -}}
{{- end -}}

{{/* Where clients inside the cluster connect. */}}
{{- define "inferplane.gatewayUrl" -}}
{{- $port := int .Values.gateway.service.port -}}
{{- $scheme := include "inferplane.gatewayScheme" . -}}
{{- $host := printf "%s://%s.%s.svc" $scheme (include "inferplane.named" (list . "gateway")) (include "inferplane.namespace" .) -}}
{{- $usual := eq $scheme "https" | ternary 443 80 -}}
{{- .Values.gateway.url | default (eq $port $usual | ternary $host (printf "%s:%d" $host $port)) -}}
{{- end -}}
