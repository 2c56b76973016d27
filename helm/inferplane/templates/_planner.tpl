{{/* The planner's configuration file; its keys are those of inferplane_planner.config.PlannerConfig. */}}
{{- define "inferplane.plannerConfig" -}}
kubernetes:
  namespace: {{ .Values.watchNamespace | quote }}
  releaseNamespace: {{ include "inferplane.namespace" . | quote }}
  routers: {{ include "inferplane.named" (list . "gateway") }}
  routerPort: 9000
  lease: {{ include "inferplane.named" (list . "planner") }}
periodS: {{ .Values.planner.periodS }}
listen:
  health: "0.0.0.0:8080"
  metrics: "0.0.0.0:9090"
decisions: /var/lib/inferplane/decisions.jsonl
{{- $prices := list -}}
{{- range $class, $known := .Values.accelerators -}}
{{- with $known.pricePerHour -}}{{- $prices = append $prices (dict "accelerator" $class "perHour" .) -}}{{- end -}}
{{- end }}
prices: {{ toJson $prices }}
{{- $calibrations := list -}}
{{- range $class, $profile := .Values.planner.calibrations -}}
{{- $file := printf "/etc/inferplane/calibration-%s.json" $class -}}
{{- $calibrations = append $calibrations (dict "accelerator" $class "file" $file) -}}
{{- end }}
calibrations: {{ toJson $calibrations }}
{{- end -}}
