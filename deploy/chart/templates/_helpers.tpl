{{/* The labels by which services, the budget and the policy find the pods of this release. */}}
{{- define "rollcall.selector" -}}
app.kubernetes.io/name: rollcall
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The labels of the pods that are no members: no Service, budget or policy selects them as members. */}}
{{- define "rollcall.jobSelector" -}}
app.kubernetes.io/name: rollcall-jobs
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The labels of every object. */}}
{{- define "rollcall.labels" -}}
{{ include "rollcall.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "rollcall.image" -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- end }}

{{- define "rollcall.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "rollcall.podSecurity" -}}
runAsNonRoot: true
runAsUser: 1000
runAsGroup: 1000
fsGroup: 1000 # owns the volumes, and may read the token and the secret
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* The URL of HTTP begins with this. */}}
{{- define "rollcall.scheme" -}}
{{ if .Values.tls.http }}https{{ else }}http{{ end }}
{{- end }}

{{/* Mistakes that the schema cannot find. */}}
{{- define "rollcall.check" -}}
{{- range $key := list "archive" "authorities" "backup" "external" "metrics" "networkPolicy" "secrets" "tls" }}
{{- if not (hasKey $.Values $key) }}
{{- fail (printf "%s: the values have none, as with helm upgrade --reuse-values after another chart; use --reset-then-reuse-values" $key) }}
{{- end }}
{{- end }}
{{- if and .Values.tls.http (not .Values.tls.members.secret) }}
{{- fail "tls.http: HTTPS has the certificates of the members; set tls.members.secret" }}
{{- end }}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.secrets.metrics.name) }}
{{- fail "metrics.serviceMonitor: Prometheus needs a token to read /metrics; set secrets.metrics.name" }}
{{- end }}
{{- if and .Values.tls.issuer.name (not .Values.tls.members.secret) (not .Values.tls.clients.secret) }}
{{- fail "tls.issuer: no Secret is named that it could make; set tls.members.secret or tls.clients.secret" }}
{{- end }}
{{- if and (not .Values.tls.clients.plain) (not .Values.tls.clients.secret) }}
{{- fail "tls.clients.plain=false: no port for clients would be left; set tls.clients.secret" }}
{{- end }}
{{- if and (not .Values.archive.to) (or .Values.archive.verify .Values.backup.schedule .Values.archive.endpoint .Values.archive.region .Values.archive.credentials.name) }}
{{- fail "archive.to: no archive is named, and other values of archive, or backup.schedule, need one; set archive.to" }}
{{- end }}
{{- range $key := list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "helm.sh/chart" }}
{{- if hasKey $.Values.labels $key }}
{{- fail (printf "labels: the chart sets %s itself; remove it from the values" $key) }}
{{- end }}
{{- end }}
{{- end }}

{{/* The keys of zoo.cfg without the server lines. */}}
{{- define "rollcall.keys" -}}
{{- $own := dict "dataDir" "/data" "serverIdFromHostname" "true" "standaloneEnabled" "false" "members.join" "auto" "quorumListenOnAllIPs" "true" "ensembleSecretFile" "/secret/secret" "admin.serverAddress" "0.0.0.0" "admin.tokenFile" "/token/token" -}}
{{- if .Values.secrets.otlpHeaders.name }}
{{- $_ := set $own "otlp.headersFile" "/otlp/headers" }}
{{- end }}
{{- if .Values.secrets.metrics.name }}
{{- $_ := set $own "admin.metricsTokenFile" "/metrics/token" }}
{{- end }}
{{- if .Values.tls.members.secret }}
{{- $_ := merge $own (dict "sslQuorum" "true" "ssl.quorum.keyStore.location" "/tls/members/member.pem" "ssl.quorum.trustStore.location" "/tls/members/ca.pem" "members.join.hosts" (printf "*.%s-members" .Release.Name)) }}
{{- end }}
{{- if .Values.tls.clients.plain }}
{{- $_ := set $own "members.line" (printf "%s-{ordinal}.%s-members:2888:3888;2181" .Release.Name .Release.Name) }}
{{- end }}
{{- if .Values.backup.membersClaim }}
{{- $_ := set $own "backup.dir" "/backups" }}
{{- end }}
{{- with .Values.archive }}
{{- if .to }}
{{- $_ := set $own "archive.to" .to }}
{{- end }}
{{- if .endpoint }}
{{- $_ := set $own "archive.endpoint" .endpoint }}
{{- end }}
{{- if .region }}
{{- $_ := set $own "archive.region" .region }}
{{- end }}
{{- if .credentials.name }}
{{- $_ := set $own "archive.credentialsFile" "/archive/credentials" }}
{{- end }}
{{- end }}
{{- if .Values.tls.http }}
{{- $_ := set $own "admin.forceHttps" "true" }}
{{- end }}
{{- if .Values.tls.clients.secret }}
{{- $_ := merge $own (dict "secureClientPort" "2281" "ssl.keyStore.location" "/tls/clients/member.pem" "ssl.trustStore.location" "/tls/clients/ca.pem" "ssl.clientAuth" .Values.tls.clients.authentication) }}
{{- end }}
{{- range $key, $value := .Values.config }}
{{- if or (hasKey $own $key) (hasPrefix "server." $key) (has $key (list "clientPort" "clientPortAddress" "admin.serverPort" "dynamicConfigFile")) }}
{{- fail (printf "config.%s: the chart sets this key itself, because the pods, their ports and their volumes depend on it; remove it from the values" $key) }}
{{- end }}
{{ $key }}={{ if kindIs "float64" $value }}{{ int64 $value }}{{ else }}{{ $value }}{{ end }}
{{- end }}
{{- range $key, $value := $own }}
{{ $key }}={{ $value }}
{{- end }}
{{- end }}

{{/* zoo.cfg. A pod's name gives the member its number: RELEASE-0 is server.1. Pods beyond .Values.members have the line of members.line. */}}
{{- define "rollcall.config" -}}
{{ include "rollcall.keys" . }}
{{- range $i := until (int .Values.members) }}
server.{{ add1 $i }}={{ $.Release.Name }}-{{ $i }}.{{ $.Release.Name }}-members:2888:3888{{ if $.Values.tls.clients.plain }};2181{{ end }}
{{- end }}
{{- end }}

{{/* The ports of a Service for clients. */}}
{{- define "rollcall.clientPorts" -}}
{{- if .Values.tls.clients.plain }}
- {name: client, port: 2181, targetPort: client}
{{- end }}
{{- if .Values.tls.clients.secret }}
- {name: client-tls, port: 2281, targetPort: client-tls}
{{- end }}
{{- end }}

{{/* The ports for clients by their names. */}}
{{- define "rollcall.clientPortNames" -}}
{{- if .Values.tls.clients.plain }}
- {port: client}
{{- end }}
{{- if .Values.tls.clients.secret }}
- {port: client-tls}
{{- end }}
{{- end }}

{{/* Who may connect: a list of peers and the chart's own jobs, or everybody if the list is empty. */}}
{{- define "rollcall.peers" -}}
{{- $root := index . 1 }}
{{- with index . 0 }}
from:
  - podSelector:
      matchLabels:
        {{- include "rollcall.jobSelector" $root | nindent 8 }}
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The ports for operators of all members. */}}
{{- define "rollcall.adminURLs" -}}
{{- range $i := until (int .Values.members) }}{{ if $i }},{{ end }}{{ include "rollcall.scheme" $ }}://{{ $.Release.Name }}-{{ $i }}.{{ $.Release.Name }}-members:8080{{ end }}
{{- end }}

{{/* A volume with one file of a Secret. */}}
{{- define "rollcall.secretFile" -}}
- name: {{ .volume }}
  secret:
    secretName: {{ .secret }}
    defaultMode: 0440
    items:
      - {key: {{ .key | quote }}, path: {{ .path }}}
{{- end }}

{{/* A volume with the files of cert-manager's Secret. */}}
{{- define "rollcall.certificates" -}}
- name: {{ .volume }}
  secret:
    secretName: {{ .secret }}
    defaultMode: 0440
    items:
      - {key: tls-combined.pem, path: member.pem}
      - {key: ca.crt, path: ca.pem}
{{- end }}

{{- define "rollcall.authorities" -}}
- name: authorities
  configMap:
    name: {{ .Values.authorities.configMap }}
    items:
      - {key: {{ .Values.authorities.key | quote }}, path: ca.pem}
{{- end }}

{{/* The spec of a CronJob up to its containers. One runs at a time, and a failed one is not repeated before the next time. */}}
{{- define "rollcall.job" -}}
concurrencyPolicy: Forbid
successfulJobsHistoryLimit: 1
failedJobsHistoryLimit: 3
jobTemplate:
  spec:
    backoffLimit: 1
    activeDeadlineSeconds: 7200
    template:
      metadata:
        labels:
          {{- include "rollcall.jobSelector" . | nindent 10 }}
          {{- with .Values.labels }}
          {{- toYaml . | nindent 10 }}
          {{- end }}
      spec:
        restartPolicy: Never
        automountServiceAccountToken: false
        enableServiceLinks: false
        {{- with .Values.imagePullSecrets }}
        imagePullSecrets:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        {{- with .Values.nodeSelector }}
        nodeSelector:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        {{- with .Values.tolerations }}
        tolerations:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        securityContext:
          {{- include "rollcall.podSecurity" . | nindent 10 }}
{{- end }}

{{/* The image of a container that reads the archive, with what it needs for that; then its mounts and volumes. */}}
{{- define "rollcall.archiveContainer" -}}
image: {{ include "rollcall.image" . }}
{{- with .Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
env:
  {{- with .Values.archive.endpoint }}
  - {name: AWS_ENDPOINT_URL, value: {{ . | quote }}}
  {{- end }}
  {{- with .Values.archive.region }}
  - {name: AWS_REGION, value: {{ . | quote }}}
  {{- end }}
  {{- if .Values.archive.credentials.name }}
  - {name: AWS_SHARED_CREDENTIALS_FILE, value: /archive/credentials}
  {{- end }}
  {{- if .Values.authorities.configMap }}
  - {name: SSL_CERT_FILE, value: /authorities/ca.pem}
  {{- end }}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  {{- include "rollcall.containerSecurity" . | nindent 2 }}
{{- end }}

{{- define "rollcall.archiveMounts" -}}
- {name: tmp, mountPath: /tmp}
{{- if .Values.archive.credentials.name }}
- {name: archive-credentials, mountPath: /archive, readOnly: true}
{{- end }}
{{- if .Values.authorities.configMap }}
- {name: authorities, mountPath: /authorities, readOnly: true}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "rollcall.archiveVolumes" -}}
- name: tmp
  emptyDir: {}
{{- with .Values.archive.credentials }}
{{- if .name }}
{{ include "rollcall.secretFile" (dict "volume" "archive-credentials" "secret" .name "key" .key "path" "credentials") }}
{{- end }}
{{- end }}
{{- if .Values.authorities.configMap }}
{{ include "rollcall.authorities" . }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
