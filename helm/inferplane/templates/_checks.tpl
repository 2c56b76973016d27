{{/* What the schema cannot say: values that contradict each other.  Every message names the value and the fix. */}}
{{- define "inferplane.check" -}}
{{- range $component := include "inferplane.components" . | fromJsonArray -}}
{{- $account := (index $.Values $component).serviceAccount -}}
{{- if and (not $account.create) (not $account.name) -}}
{{- fail (printf "%s.serviceAccount.name: create is false, so name the ServiceAccount that is there" $component) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.gateway.httpRoute.enabled (not .Values.gateway.httpRoute.parentRefs) -}}
{{- fail "gateway.httpRoute.parentRefs: a route needs the Gateway that it belongs to; add - name: NAME (and namespace: NAMESPACE)" -}}
{{- end -}}
{{- with .Values.watchNamespace -}}
{{- $watched := . -}}
{{- range $.Values.networkPolicies.workerNamespaces -}}
{{- if ne . $watched -}}
{{- fail (printf "networkPolicies.workerNamespaces: only namespace %s is watched, so no worker runs in %s; remove it" $watched .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
