{{- define "trnbot.name" -}}
{{ ternary .Release.Name (printf "%s-trnbot" .Release.Name | trunc 50 | trimSuffix "-") (contains "trnbot" .Release.Name) }}
{{- end }}

{{- define "trnbot.selector" -}}
app.kubernetes.io/name: trnbot
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "trnbot.labels" -}}
{{ include "trnbot.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "trnbot.environment" -}}
{{- $variables := .Values.settings }}
{{- if .Values.config }}
{{- $variables = merge (dict "TRNBOT_CONFIG" "/etc/trnbot/trnbot.toml") $variables }}
{{- end }}
{{- if .Values.owners }}
{{- $variables = merge (dict "TRNBOT_OWNERS_FILE" "/etc/trnbot/owners.toml") $variables }}
{{- end }}
{{- if .Values.ingress.enabled }}
{{- $variables = merge (dict "TRNBOT_PUBLIC_URL" (printf "https://%s" .Values.ingress.host)) $variables }}
{{- end }}
{{- range $name, $text := $variables }}
- name: {{ $name }}
  value: {{ $text | quote }}
{{- end }}
{{- end }}
