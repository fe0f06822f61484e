{{- define "narthex.labels" -}}
app.kubernetes.io/name: narthex
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .role }}
{{- end }}

{{- define "narthex.metadata" -}}
name: {{ .root.Release.Name }}-{{ .role }}
labels:
  {{- include "narthex.labels" . | nindent 2 }}
  app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
  helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- define "narthex.image" -}}
image: {{ .Values.image.repository }}:{{ .Values.image.tag }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{/* What every pod has: an account without rights, and no root. */}}
{{- define "narthex.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false  # a Service named narthex-… would set variables of our prefix
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "narthex.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* A variable from the Secret: a list of root, name of the variable, name of the key's value. */}}
{{- define "narthex.secret" -}}
- name: {{ index . 1 }}
  valueFrom:
    secretKeyRef:
      name: {{ required "`secret` is empty; name the Secret with the keys of `secretKeys`" (index . 0).Values.secret }}
      key: {{ index (index . 0).Values.secretKeys (index . 2) }}
{{- end }}

{{- define "narthex.airflowUrl" -}}
{{- if .Values.airflow.enabled -}}
http://{{ .Release.Name }}-airflow-api-server:8080
{{- else -}}
{{ required "`airflow.url` is empty; set it, or `airflow.enabled`" .Values.airflow.url }}
{{- end -}}
{{- end }}

{{/* The settings of every process. A process that listens replaces its own address afterwards. */}}
{{- define "narthex.settings" -}}
- {name: NARTHEX_HOME, value: /var/lib/narthex/home}
- {name: NARTHEX_HOME_GROUP, value: "on"}  # the kubelet lets the fsGroup in
- {name: NARTHEX_INSTALL_ID, value: {{ required "`installId` is empty; choose eight characters [a-z0-9]" .Values.installId | quote }}}
- {name: NARTHEX_KAFKA, value: {{ required "`kafka.bootstrap` is empty" .Values.kafka.bootstrap | quote }}}
{{- if .Values.kafka.user }}
- {name: NARTHEX_KAFKA_USER, value: {{ .Values.kafka.user | quote }}}
- {name: NARTHEX_KAFKA_MECHANISM, value: {{ .Values.kafka.mechanism }}}
{{ include "narthex.secret" (list . "NARTHEX_KAFKA_PASSWORD" "kafkaPassword") }}
{{- end }}
{{- if .Values.kafka.tls }}
- {name: NARTHEX_KAFKA_TLS, value: "on"}
{{- end }}
- {name: NARTHEX_INDEX_STORE, value: {{ required "`indexStore.address` is empty; name servers of the Redis protocol" .Values.indexStore.address | quote }}}
{{- if .Values.indexStore.hasPassword }}
{{ include "narthex.secret" (list . "NARTHEX_INDEX_STORE_PASSWORD" "indexStorePassword") }}
{{- end }}
- {name: NARTHEX_INDEX_DIR, value: /var/lib/narthex/home/index}
- {name: NARTHEX_HISTORY_DIR, value: {{ .Values.history | quote }}}
- {name: NARTHEX_SNAPSHOT_DIR, value: {{ .Values.snapshots | quote }}}
- {name: NARTHEX_CHECKPOINT_DIR, value: /var/lib/narthex/home/checkpoints}
- {name: NARTHEX_FILES_ROOT, value: /data}
- {name: NARTHEX_JARS_DIR, value: /opt/narthex/cache/jars/spark}
- {name: NARTHEX_SANDBOX, value: {{ .Values.sandbox }}}
- {name: NARTHEX_LOG_FORMAT, value: {{ .Values.logFormat }}}
- {name: NARTHEX_PARTITIONS, value: {{ .Values.partitions | quote }}}
- {name: NARTHEX_AIRFLOW_URL, value: {{ include "narthex.airflowUrl" . | quote }}}
{{- if .Values.configSecret }}
- {name: NARTHEX_POLICY_FILE, value: /etc/narthex/policy.toml}
- {name: NARTHEX_ALERTS_FILE, value: /etc/narthex/alerts.toml}
- {name: NARTHEX_SSO_FILE, value: /etc/narthex/sso.toml}
{{- end }}
{{- if .Values.ca.secret }}
- {name: NARTHEX_CA_FILE, value: /etc/narthex-ca/{{ .Values.ca.key }}}
{{- end }}
{{ include "narthex.secret" (list . "NARTHEX_LEDGER_DSN" "ledgerDsn") }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The rights of the platform's own processes; Airflow's have fewer. */}}
{{- define "narthex.owner" -}}
{{ include "narthex.secret" (list . "NARTHEX_TOKEN" "token") }}
{{ include "narthex.secret" (list . "NARTHEX_DAGS_TOKEN" "dagsToken") }}
- {name: NARTHEX_AIRFLOW_USER, value: {{ .Values.airflow.user | quote }}}
{{ include "narthex.secret" (list . "NARTHEX_AIRFLOW_PASSWORD" "airflowPassword") }}
{{- end }}

{{- define "narthex.serverUrl" -}}
- {name: NARTHEX_SERVER_URL, value: "http://{{ .Release.Name }}-server:8400"}
{{- end }}

{{- define "narthex.mounts" -}}
- {name: tmp, mountPath: /tmp}
- {name: state, mountPath: /var/lib/narthex}
- {name: files, mountPath: /data, readOnly: true}
{{- if .Values.configSecret }}
- {name: config, mountPath: /etc/narthex, readOnly: true}
{{- end }}
{{- if .Values.ca.secret }}
- {name: ca, mountPath: /etc/narthex-ca, readOnly: true}
{{- end }}
{{- end }}

{{/* Java extracts and loads native libraries in /tmp. */}}
{{- define "narthex.volumes" -}}
- {name: tmp, emptyDir: {}}
- name: state
  persistentVolumeClaim:
    claimName: {{ .Values.storage.state.existingClaim | default (printf "%s-state" .Release.Name) }}
- name: files
  {{- if .Values.storage.files.existingClaim }}
  persistentVolumeClaim: {claimName: {{ .Values.storage.files.existingClaim }}, readOnly: true}
  {{- else }}
  emptyDir: {}
  {{- end }}
{{- if .Values.configSecret }}
- {name: config, secret: {secretName: {{ .Values.configSecret }}, defaultMode: 0440}}
{{- end }}
{{- if .Values.ca.secret }}
- {name: ca, secret: {secretName: {{ .Values.ca.secret }}, defaultMode: 0444}}
{{- end }}
{{- end }}

{{/* Fails if the supervisor has not touched its file for so many seconds. */}}
{{- define "narthex.heartbeat" -}}
exec:
  command:
    - python
    - -c
    - >-
      import os, sys, time;
      path = f"/var/lib/narthex/home/run/{os.environ['POD_NAME']}/supervisor.heartbeat";
      sys.exit(time.time() - os.stat(path).st_mtime > {{ . }})
{{- end }}

{{/* The settings of Airflow itself, and the rights of its DAGs: no task can answer for a person. */}}
{{- define "narthex.airflow" -}}
{{ include "narthex.secret" (list . "NARTHEX_TOKEN" "dagsToken") }}
- {name: NARTHEX_AIRFLOW_USER, value: ""}
- {name: NARTHEX_AIRFLOW_PASSWORD, value: ""}
- {name: AIRFLOW_HOME, value: /var/lib/airflow}
- {name: AIRFLOW__CORE__LOAD_EXAMPLES, value: "False"}
- {name: AIRFLOW__CORE__EXECUTOR, value: LocalExecutor}
- {name: AIRFLOW__CORE__PARALLELISM, value: {{ .Values.airflow.parallelism | quote }}}
- name: AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST
  value: '[{"name": "narthex", "classpath": "narthex_plugins.dag_bundle.NarthexDagBundle", "kwargs": {}}]'
- name: AIRFLOW__CORE__AUTH_MANAGER
  value: airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager
- {name: AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS, value: {{ printf "%s:admin" .Values.airflow.user | quote }}}
- {name: AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE, value: /run/airflow/passwords.json}
- {name: AIRFLOW__CORE__EXECUTION_API_SERVER_URL, value: "{{ include "narthex.airflowUrl" . }}/execution/"}
- {name: AIRFLOW__API__HOST, value: 0.0.0.0}
- {name: AIRFLOW__API__PORT, value: "8080"}
- {name: AIRFLOW__API__BASE_URL, value: {{ include "narthex.airflowUrl" . | quote }}}
- {name: AIRFLOW__API__WORKERS, value: "1"}
- {name: AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME, value: "0.25"}
- {name: AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL, value: "1"}
- {name: AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL, value: "10"}
- name: AIRFLOW_CONN_SPARK_NARTHEX
  value: '{"conn_type": "spark", "host": "local[2]"}'
{{ include "narthex.secret" (list . "AIRFLOW__CORE__FERNET_KEY" "airflowFernetKey") }}
{{ include "narthex.secret" (list . "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN" "airflowDsn") }}
{{ include "narthex.secret" (list . "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC" "airflowDsnAsync") }}
{{ include "narthex.secret" (list . "AIRFLOW__API__SECRET_KEY" "airflowSecretKey") }}
{{ include "narthex.secret" (list . "AIRFLOW__API_AUTH__JWT_SECRET" "airflowJwtSecret") }}
{{- end }}
