{{/*
Names.  Any release name is taken: one with dots, one that begins with a digit (a Service's name may do neither), one
at Helm's limit of 53 characters.  A text that has to be changed gets a digest of itself, so that two stay two.
*/}}

{{/* A DNS label of at most `max` characters for `text`, the same for the same text. */}}
{{- define "inferplane.label" -}}
{{- $plain := .text | replace "." "-" -}}
{{- if regexMatch "^[0-9]" $plain -}}{{- $plain = printf "r%s" $plain -}}{{- end -}}
{{- if or (ne $plain .text) (gt (len $plain) (int .max)) -}}
{{- printf "%s-%s" ($plain | trunc (int (sub .max 9)) | trimSuffix "-") (sha256sum .text | trunc 8) -}}
{{- else -}}
{{- $plain -}}
{{- end -}}
{{- end -}}

{{- define "inferplane.name" -}}
{{- .Values.nameOverride | default .Chart.Name -}}
{{- end -}}

{{- define "inferplane.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains (include "inferplane.name" .) .Release.Name -}}
{{- .Release.Name -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "inferplane.name" .) -}}
{{- end -}}
{{- end -}}

{{/* The name of a namespaced object: list ROOT SUFFIX.  At most 63 characters, as Services and Jobs need. */}}
{{- define "inferplane.named" -}}
{{- $suffix := index . 1 -}}
{{- $head := dict "text" (include "inferplane.fullname" (index . 0)) "max" (sub 62 (len $suffix)) -}}
{{- printf "%s-%s" (include "inferplane.label" $head) $suffix -}}
{{- end -}}

{{- define "inferplane.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace -}}
{{- end -}}

{{/* The name of a cluster-wide object.  The namespace is part of it: a release's name is its own in its namespace only. */}}
{{- define "inferplane.clusterNamed" -}}
{{- printf "%s.%s" (include "inferplane.named" .) (include "inferplane.namespace" (index . 0)) -}}
{{- end -}}

{{/* The ServiceAccount of a component: list ROOT COMPONENT. */}}
{{- define "inferplane.serviceAccount" -}}
{{- $account := (index (index . 0).Values (index . 1)).serviceAccount -}}
{{- if $account.create -}}
{{- $account.name | default (include "inferplane.named" .) -}}
{{- else -}}
{{- $account.name -}}
{{- end -}}
{{- end -}}

{{/* The components that this release has, as JSON. */}}
{{- define "inferplane.components" -}}
{{- $components := list "operator" "gateway" -}}
{{- if .Values.planner.enabled -}}{{- $components = append $components "planner" -}}{{- end -}}
{{- toJson $components -}}
{{- end -}}
