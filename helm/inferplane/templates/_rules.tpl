{{/*
What each component may do, and nothing else.  e2e takes each rule away and sees something fail.
No rule reads Secrets: the operator writes their names into Pods, and the kubelet reads them.
*/}}
{{- define "inferplane.rules.operator" -}}
- apiGroups: [inferplane.dev]
  resources: [inferenceservices, kvstores, loraadapters, modelroutes]
  verbs: [get, list, watch]
- apiGroups: [inferplane.dev]
  resources: [prefillpools, decodepools]
  verbs: [get, list, watch, create, patch, delete]
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
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [replicasets]
  verbs: [list, watch]
- apiGroups: [apps]
  resources: [controllerrevisions]
  verbs: [get, list, create, patch, delete]
- apiGroups: [leaderworkerset.x-k8s.io]
  resources: [leaderworkersets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
# patch: what a Pod's deletion would cost, before replicas drop.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, patch]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
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
