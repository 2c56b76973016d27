{{/* Labels.  Those of `selector` never change during a release's life; Pods carry no version, so that it restarts none. */}}

{{/* list ROOT COMPONENT */}}
{{- define "inferplane.selector" -}}
app.kubernetes.io/name: {{ include "inferplane.name" (index . 0) | quote }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
inferplane.dev/component: {{ index . 1 }}
{{- end -}}

{{/* list ROOT COMPONENT */}}
{{- define "inferplane.labels" -}}
{{- $root := index . 0 -}}
{{ include "inferplane.selector" . }}
app.kubernetes.io/part-of: inferplane
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}
