{{/*
What each component may do, and nothing else.  e2e takes each rule away and sees something fail.
No rule reads Secrets: the operator writes their names into Pods, and the kubelet reads them.
*/}}
{{- define "inferplane.rules.operator" -}}
- apiGroups: [inferplane.dev]
  resources: [inferenceservices, kvstores, loraadapters, modelroutes]
  verbs: [list, watch]
- apiGroups: [inferplane.dev]
  resources: [prefillpools, decodepools]
  verbs: [list, watch, create, patch]
# A service may lose its prefill pool; its decode pool goes with the service.
- apiGroups: [inferplane.dev]
  resources: [prefillpools]
  verbs: [delete]
- apiGroups: [inferplane.dev]
  resources: [prefillpools/scale, decodepools/scale]
  verbs: [patch]
- apiGroups: [inferplane.dev]
  resources:
    - inferenceservices/status
    - prefillpools/status
    - decodepools/status
    - kvstores/status
    - loraadapters/status
    - modelroutes/status
  verbs: [patch]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [controllerrevisions]
  verbs: [list, watch, create, delete]
- apiGroups: [apps]
  resources: [replicasets]
  verbs: [list, watch]
# Workers that span nodes: what makes them, where the cluster has it, and what that makes.
- apiGroups: [leaderworkerset.x-k8s.io]
  resources: [leaderworkersets]
  verbs: [list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [list, watch]
# These two go with the pool that owns them.
- apiGroups: [""]
  resources: [services]
  verbs: [list, watch, create, patch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [list, watch, create, patch]
# patch: what a Pod's deletion would cost, before replicas drop.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, patch]
- apiGroups: [resource.k8s.io]
  resources: [resourceclaimtemplates]
  verbs: [create, patch]
# The key of a KVStore's checksums: made, and never read.  A creation cannot be held to a name.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- if .Values.monitoring.rules.enabled }}
# The alerts of services' objectives, which go with the services.
- apiGroups: [monitoring.coreos.com]
  resources: [prometheusrules]
  verbs: [list, watch, create, patch]
{{- end }}
{{- end -}}

{{- define "inferplane.rules.gateway" -}}
- apiGroups: [inferplane.dev]
  resources: [inferenceservices, prefillpools, decodepools, loraadapters, modelroutes]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
- apiGroups: [apps]
  resources: [deployments, replicasets, statefulsets]
  verbs: [list, watch]
- apiGroups: [leaderworkerset.x-k8s.io]
  resources: [leaderworkersets]
  verbs: [list, watch]
{{- end -}}

{{- define "inferplane.rules.planner" -}}
- apiGroups: [inferplane.dev]
  resources: [inferenceservices, prefillpools, decodepools]
  verbs: [list, watch]
# get: what is scaled is looked at in the same moment, and whoever was there first wins.
- apiGroups: [inferplane.dev]
  resources: [prefillpools/scale, decodepools/scale]
  verbs: [get, patch]
- apiGroups: [inferplane.dev]
  resources: [inferenceservices/status]
  verbs: [patch]
{{- end -}}
