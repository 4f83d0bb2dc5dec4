{{/*
Names do not depend on the release: a cluster has one reconciler, and the admission policy matches the name of the
agents' ServiceAccount.
*/}}

{{- define "ip-reconcile.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "ip-reconcile.selector" -}}
app.kubernetes.io/name: ip-reconcile
app.kubernetes.io/component: reconciler
{{- end -}}

{{- define "ip-reconcile.agentSelector" -}}
app.kubernetes.io/name: ip-reconcile
app.kubernetes.io/component: agent
{{- end -}}

{{/* The labels of the reconciler's and of the agents' objects. */}}
{{- define "ip-reconcile.reconcilerLabels" -}}
{{ include "ip-reconcile.labels" . }}
{{ include "ip-reconcile.selector" . }}
{{- end -}}

{{- define "ip-reconcile.agentLabels" -}}
{{ include "ip-reconcile.labels" . }}
{{ include "ip-reconcile.agentSelector" . }}
{{- end -}}

{{/* Neither selector matches the pod of `helm test`. */}}
{{- define "ip-reconcile.testLabels" -}}
{{ include "ip-reconcile.labels" . }}
app.kubernetes.io/name: ip-reconcile
app.kubernetes.io/component: test
{{- end -}}

{{/* global.imageRegistry replaces a registry, which is a first component with a dot or a port. */}}
{{- define "ip-reconcile.image" -}}
{{- with .Values.image -}}
{{- $repository := .repository }}
{{- with $.Values.global.imageRegistry }}
{{- $repository = printf "%s/%s" (trimSuffix "/" .) (regexReplaceAll "^([^/]*[.:][^/]*|localhost)/" $repository "") }}
{{- end -}}
image: {{ printf "%s:%s%s" $repository (.tag | default $.Chart.AppVersion) (empty .digest | ternary "" (printf "@%s" .digest)) | quote }}
imagePullPolicy: {{ .pullPolicy }}
{{- end -}}
{{- end -}}

{{/*
Where pods run, and how their image is pulled: for the Deployment, the CronJob and the DaemonSet. Argument: a dict of
root, values (of these pods), selector.
*/}}
{{- define "ip-reconcile.placement" -}}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- range $field := list "priorityClassName" "affinity" "nodeSelector" "tolerations" }}
{{- with index $.values $field }}
{{ dict $field . | toYaml }}
{{- end }}
{{- end }}
{{- with .values.topologySpreadConstraints }}
topologySpreadConstraints:
{{- range . }}
{{- $pods := dict "labelSelector" (dict "matchLabels" (include $.selector $.root | fromYaml)) }}
{{- list (hasKey . "labelSelector" | ternary . (merge $pods .)) | toYaml | nindent 0 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The metadata of pods. Argument: a dict of root, values (of these pods), selector. */}}
{{- define "ip-reconcile.podMetadata" -}}
{{- with .values.podAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
labels:
  {{- include .selector .root | nindent 2 }}
  {{- with .values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* The arguments of serve and run. */}}
{{- define "ip-reconcile.args" -}}
{{- if .Values.agent.enabled }}
- --agents=required
{{- $selector := list }}
{{- range $key, $value := .Values.agent.nodeSelector }}
{{- $selector = append $selector (printf "%s=%s" $key $value) }}
{{- end }}
{{- $selector = join "," $selector }}
{{- if ne $selector "kubernetes.io/os=linux" }}
- {{ printf "--agent-nodes=%s" $selector | quote }}
{{- end }}
{{- if ne .Values.agent.leaseNamespace "ip-reconcile-node-lease" }}
- --lease-namespace={{ .Values.agent.leaseNamespace }}
{{- end }}
{{- end }}
{{- if or .Values.repair (and (kindIs "invalid" .Values.repair) .Values.agent.enabled) }}
- --repair
{{- end }}
{{- if .Values.allowMassRepair }}
- --allow-mass-repair
{{- end }}
{{- if .Values.trustNetworkStatus }}
- --trust-network-status
{{- end }}
{{- with .Values.confirmAfter }}
- --confirm-after={{ . }}
{{- end }}
{{- range .Values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{/* The pod spec of the Deployment, the CronJob and the test, without account and containers. */}}
{{- define "ip-reconcile.pod" -}}
automountServiceAccountToken: true
{{- if .Values.hostNetwork }}
hostNetwork: true
dnsPolicy: Default
{{- end }}
{{ include "ip-reconcile.placement" (dict "root" . "values" .Values "selector" "ip-reconcile.selector") | trim }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- end -}}

{{- define "ip-reconcile.container" -}}
name: ip-reconcile
{{ include "ip-reconcile.image" . }}
command: [/ip-reconcile]
securityContext:
  privileged: false
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- with .Values.resources }}
resources: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "ip-reconcile.subjects" -}}
subjects:
- kind: ServiceAccount
  name: ip-reconcile
  namespace: {{ .Release.Namespace | quote }}
{{- end -}}

{{/* The rules for Leases of whereabouts and the reconciler. RBAC cannot restrict create by name. */}}
{{- define "ip-reconcile.leaseRules" }}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
{{- if not .Values.leaseNames }}
  verbs: [get, create, update]
{{- else }}
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: {{- concat .Values.leaseNames (list "ip-reconcile" "ip-reconcile-last-pass" "ip-reconcile-restore") | toYaml | nindent 2 }}
  verbs: [get, update]
{{- end }}
{{- end -}}

{{/* The Secret with the certificate for metrics; "" for none. Argument: a dict of tls, name. */}}
{{- define "ip-reconcile.certificate" -}}
{{- if .tls.issuerRef }}{{ printf "%s-tls" .name }}{{ else }}{{ .tls.secretName }}{{ end }}
{{- end -}}

{{/* The Certificate for cert-manager. Argument: a dict of root, tls, name, selector, page: the
name of the page's Service, or "". */}}
{{- define "ip-reconcile.issued" -}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels: {{- include "ip-reconcile.labels" .root | nindent 4 }}
    {{- include .selector .root | nindent 4 }}
spec:
  secretName: {{ .name }}-tls
  dnsNames: [{{ .name }}.{{ .root.Release.Namespace }}.svc{{ with .page }}, {{ . }}.{{ $.root.Release.Namespace }}.svc{{ end }}]
  usages: [server auth]
  issuerRef: {{- toYaml .tls.issuerRef | nindent 4 }}
{{- end -}}

{{/*
An endpoint for Prometheus. Argument: a dict of root, metrics, name (of the certificate), monitor, and the chart's own
relabelings.
*/}}
{{- define "ip-reconcile.endpoint" -}}
port: metrics
interval: {{ .monitor.interval }}
{{- with concat .relabelings (.monitor.relabelings | default list) }}
relabelings: {{- toYaml . | nindent 0 }}
{{- end }}
{{- with .monitor.metricRelabelings }}
metricRelabelings: {{- toYaml . | nindent 0 }}
{{- end }}
{{- if .metrics.secure }}
scheme: https
{{- with .monitor.credentials }}
{{- if .name }}
authorization:
  credentials: {name: {{ .name | quote }}, key: {{ .key | quote }}}
{{- else }}
bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
{{- end }}
{{- end }}
tlsConfig:
  {{- if .monitor.insecureSkipVerify }}
  insecureSkipVerify: true
  {{- else }}
  ca:
    secret: {name: {{ include "ip-reconcile.certificate" (dict "tls" .metrics.tls "name" .name) | quote }}, key: ca.crt}
  serverName: {{ .name }}.{{ .root.Release.Namespace }}.svc
  {{- end }}
{{- end }}
{{- end -}}

{{/* The whole seconds of a duration such as 1h30m. */}}
{{- define "ip-reconcile.seconds" -}}
{{- $start := toDate "2006-01-02" "2001-01-01" }}
{{- sub ($start | dateModify . | unixEpoch) ($start | unixEpoch) }}
{{- end -}}

{{/* Checks beyond the schema. */}}
{{- define "ip-reconcile.validate" -}}
{{- if not .Values.image.repository }}
{{- fail "image.repository: no image is published. Build it (docker build -f deploy/Dockerfile), push it, and set image.repository=example.com/ip-reconcile" }}
{{- end }}
{{- if and .Values.agent.enabled .Values.agent.admissionPolicy (semverCompare "<1.30.0-0" .Capabilities.KubeVersion.Version) }}
{{- fail (printf "agent.admissionPolicy: it needs Kubernetes 1.30 or newer, this is %s. Without it anyone who is root on a node can write the report of another node, and cause the release of addresses in use there. Set agent.enabled=false to install no agents, or agent.admissionPolicy=false to accept this" .Capabilities.KubeVersion.Version) }}
{{- end }}
{{- if and .Values.agent.enabled (has .Values.agent.leaseNamespace (concat (list .Release.Namespace "kube-system" "kube-node-lease" "kube-public" "default") (.Values.poolNamespaces | default list))) }}
{{- fail (printf "agent.leaseNamespace: others have Leases in %s, and the admission policies cannot protect the agents' there. Set a namespace of its own" .Values.agent.leaseNamespace) }}
{{- end }}
{{- if and .Values.agent.podMonitor.enabled (not .Values.agent.metrics.expose) (not .Values.agent.metrics.secure) }}
{{- fail "agent.podMonitor.enabled: only the node can read the agents' metrics; set agent.metrics.secure=true, or agent.metrics.expose=true" }}
{{- end }}
{{- if gt (include "ip-reconcile.seconds" (.Values.fenceTimeout | default "0s") | int) 90 }}
{{- fail (printf "fenceTimeout: %s is more than 90s, and serve does not start with it" .Values.fenceTimeout) }}
{{- end }}
{{- if and (eq .Values.mode "cronjob") (ge (include "ip-reconcile.seconds" (.Values.confirmAfter | default "0s") | int) 3000) }}
{{- fail (printf "confirmAfter: with mode=cronjob a run waits for 50m, so with %s nothing unconfirmed would ever be released; set less than 50m" .Values.confirmAfter) }}
{{- end }}
{{- if and .Values.hostNetwork .Values.openshift }}
{{- fail "hostNetwork: no SecurityContextConstraints of OpenShift allow it; set hostNetwork=false with openshift=true" }}
{{- end }}
{{- range $name := list "serviceMonitor" "prometheusRule" "dashboard" }}
{{- if and (index $.Values $name).enabled (ne $.Values.mode "deployment") }}
{{- fail (printf "%s.enabled: mode=cronjob has no metrics" $name) }}
{{- end }}
{{- end }}
{{- if and .Values.ui.enabled (ne .Values.mode "deployment") }}
{{- fail "ui.enabled: mode=cronjob has no page" }}
{{- end }}
{{- if and .Values.ui.enabled .Values.hostNetwork (not .Values.metrics.secure) }}
{{- fail "ui.enabled: with hostNetwork=true everybody on the node could read the page; set metrics.secure=true" }}
{{- end }}
{{- if and .Values.serviceMonitor.enabled .Values.hostNetwork (not .Values.metrics.secure) }}
{{- fail "serviceMonitor.enabled: with hostNetwork=true only the node can read plain metrics; set metrics.secure=true" }}
{{- end }}
{{- if and .Values.serviceMonitor.enabled (not .Values.metrics.secure) .Values.networkPolicy.enabled (not .Values.networkPolicy.metricsFrom) }}
{{- fail "serviceMonitor.enabled: only namespaces in networkPolicy.metricsFrom can read plain metrics; add that of Prometheus, or set metrics.secure=true" }}
{{- end }}
{{- range $monitor, $c := dict "serviceMonitor" (list .Values.serviceMonitor .Values.metrics "metrics") "agent.podMonitor" (list .Values.agent.podMonitor .Values.agent.metrics "agent.metrics") }}
{{- $m := index $c 0 }}{{ $metrics := index $c 1 }}
{{- if and $m.enabled $metrics.secure (not $m.insecureSkipVerify) (not $metrics.tls.secretName) (not $metrics.tls.issuerRef) }}
{{- fail (printf "%s.enabled: Prometheus sends its token and cannot verify the server; set %s.tls.secretName or %s.tls.issuerRef, or %s.insecureSkipVerify=true" $monitor (index $c 2) (index $c 2) $monitor) }}
{{- end }}
{{- end }}
{{- end -}}
