{{/* The labels by which services, the budget and the policy find the pods of this release. */}}
{{- define "rollcall.selector" -}}
app.kubernetes.io/name: rollcall
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

{{/* Mistakes that the schema cannot find. */}}
{{- define "rollcall.check" -}}
{{- range $key := list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "helm.sh/chart" }}
{{- if hasKey $.Values.labels $key }}
{{- fail (printf "labels: the chart sets %s itself; remove it from the values" $key) }}
{{- end }}
{{- end }}
{{- end }}

{{/* The keys of zoo.cfg without the server lines. */}}
{{- define "rollcall.keys" -}}
{{- $own := dict "dataDir" "/data" "serverIdFromHostname" "true" "quorumListenOnAllIPs" "true" "ensembleSecretFile" "/secret/secret" "admin.serverAddress" "0.0.0.0" "admin.tokenFile" "/token/token" -}}
{{- if .Values.secrets.otlpHeaders.name }}
{{- $_ := set $own "otlp.headersFile" "/otlp/headers" }}
{{- end }}
{{- range $key, $value := .Values.config }}
{{- if or (hasKey $own $key) (hasPrefix "server." $key) (has $key (list "clientPort" "admin.serverPort" "dynamicConfigFile")) }}
{{- fail (printf "config.%s: the chart sets this key itself, because the pods, their ports and their volumes depend on it; remove it from the values" $key) }}
{{- end }}
{{ $key }}={{ if kindIs "float64" $value }}{{ int64 $value }}{{ else }}{{ $value }}{{ end }}
{{- end }}
{{- range $key, $value := $own }}
{{ $key }}={{ $value }}
{{- end }}
{{- end }}

{{/* zoo.cfg. A pod's name gives the member its number: RELEASE-0 is server.1. */}}
{{- define "rollcall.config" -}}
{{ include "rollcall.keys" . }}
{{- range $i := until (int .Values.members) }}
server.{{ add1 $i }}={{ $.Release.Name }}-{{ $i }}.{{ $.Release.Name }}-members:2888:3888;2181
{{- end }}
{{- end }}
