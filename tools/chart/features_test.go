package chart

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// Where the features are looked for: see field.
const (
	set     = "StatefulSet one"
	cfg     = "ConfigMap one"
	pod     = "spec template spec "
	serving = pod + "containers rollcall "
)

// feature is a field of an object that some values make.
type feature struct{ values, object, path, want string }

// checkFeatures checks each field in what the chart makes as the release one. What is wanted is JSON.
func checkFeatures(t *testing.T, features []feature) {
	t.Helper()
	for _, f := range features {
		objects, err := renderAll("one", f.values)
		if err != nil {
			t.Errorf("%s: %v", f.values, err)
			continue
		}
		if got := brief(field(objects[f.object], strings.Fields(f.path))); got != f.want {
			t.Errorf("%s: %s has %s %s, want %s", f.values, f.object, f.path, got, f.want)
		}
	}
}

// field returns what is in a value at a path. Elements of lists have their number or their name, and zoo.cfg has its keys.
func field(v any, path []string) any {
	if len(path) == 0 {
		return v
	}
	switch v := v.(type) {
	case object:
		return field(v[path[0]], path[1:])
	case string:
		return field(settings(v), path)
	case []any:
		for i, element := range v {
			if m, _ := element.(object); brief(i) == path[0] || m["name"] == path[0] {
				return field(element, path[1:])
			}
		}
	}
	return nil
}

// Pods are placed as the values say, and have the labels, variables and volumes in them.
func TestPodsOfTheValues(t *testing.T) {
	const rack = "topologySpread[0].topologyKey=rack topologySpread[0].maxSkew=2 topologySpread[0].whenUnsatisfiable=DoNotSchedule"
	checkFeatures(t, []feature{
		{"", set, "metadata labels", `{"app.kubernetes.io/instance":"one","app.kubernetes.io/managed-by":"Helm","app.kubernetes.io/name":"rollcall",` +
			`"app.kubernetes.io/version":"0.1.0-dev","helm.sh/chart":"rollcall-0.1.0-dev"}`},
		{"topologySpread=null", set, pod + "topologySpreadConstraints", `null`},
		{rack, set, pod + "topologySpreadConstraints", `[{"labelSelector":{"matchLabels":{"app.kubernetes.io/instance":"one","app.kubernetes.io/name":"rollcall"}},"maxSkew":2,"topologyKey":"rack","whenUnsatisfiable":"DoNotSchedule"}]`},
		{"antiAffinity=required", set, pod + "affinity podAntiAffinity", `{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":{"matchLabels":` +
			`{"app.kubernetes.io/instance":"one","app.kubernetes.io/name":"rollcall"}},"topologyKey":"kubernetes.io/hostname"}]}`},
		{"nodeSelector.disk=ssd", set, pod + "nodeSelector", `{"disk":"ssd"}`},
		{"tolerations[0].key=k tolerations[0].operator=Exists", set, pod + "tolerations", `[{"key":"k","operator":"Exists"}]`},
		{"priorityClassName=high", set, pod + "priorityClassName", `"high"`},
		{"labels.team=a", set, "metadata labels team", `"a"`},
		{"labels.team=a", set, "spec template metadata labels team", `"a"`},
		{"podAnnotations.team=a", set, "spec template metadata annotations team", `"a"`},
		{"extraEnv[0].name=A extraEnv[0].value=b", set, serving + "env A", `{"name":"A","value":"b"}`},
		{"extraVolumes[0].name=v extraVolumes[0].emptyDir.medium=Memory", set, pod + "volumes v", `{"emptyDir":{"medium":"Memory"},"name":"v"}`},
		{"extraVolumeMounts[0].name=v extraVolumeMounts[0].mountPath=/v", set, serving + "volumeMounts v", `{"mountPath":"/v","name":"v"}`},
	})
}

// certificates has the values of all certificates.
const certificates = "tls.members.secret=m tls.clients.secret=c "

// Members, clients and HTTP have TLS from the Secrets that the values name, and an Issuer makes these Secrets.
func TestTLS(t *testing.T) {
	const (
		https    = certificates + "tls.http=true"
		tlsAlone = "tls.clients.secret=c tls.clients.plain=false"
		issued   = certificates + "tls.issuer.name=ca"
		files    = `"secret":{"defaultMode":288,"items":[{"key":"tls-combined.pem","path":"member.pem"},{"key":"ca.crt","path":"ca.pem"}],"secretName":`
	)
	checkFeatures(t, []feature{
		{certificates, cfg, "data zoo.cfg sslQuorum", `"true"`},
		{certificates, cfg, "data zoo.cfg ensembleSecretFile", `"/secret/secret"`},
		{"", cfg, "data zoo.cfg members.join", `"auto"`},
		{"", cfg, "data zoo.cfg members.join.hosts", `null`},
		{certificates, cfg, "data zoo.cfg members.join", `"auto"`},
		{certificates, cfg, "data zoo.cfg members.join.hosts", `"*.one-members"`},
		{certificates, cfg, "data zoo.cfg ssl.quorum.keyStore.location", `"/tls/members/member.pem"`},
		{certificates, cfg, "data zoo.cfg ssl.quorum.trustStore.location", `"/tls/members/ca.pem"`},
		{certificates, set, pod + "volumes tls-members", `{"name":"tls-members",` + files + `"m"}}`},
		{certificates, set, serving + "volumeMounts tls-members", `{"mountPath":"/tls/members","name":"tls-members","readOnly":true}`},

		{https, cfg, "data zoo.cfg admin.forceHttps", `"true"`},
		{https, set, serving + "startupProbe httpGet scheme", `"HTTPS"`},
		{https, set, serving + "livenessProbe httpGet scheme", `"HTTPS"`},
		{https, set, serving + "readinessProbe httpGet scheme", `"HTTPS"`},
		{https, set, serving + "env ROLLCALL_ADMIN value", `"https://127.0.0.1:8080"`},
		{https, set, serving + "env ROLLCALL_TLS_CA value", `"/tls/members/ca.pem"`},

		{certificates, cfg, "data zoo.cfg secureClientPort", `"2281"`},
		{certificates, cfg, "data zoo.cfg ssl.keyStore.location", `"/tls/clients/member.pem"`},
		{certificates, cfg, "data zoo.cfg ssl.trustStore.location", `"/tls/clients/ca.pem"`},
		{certificates, cfg, "data zoo.cfg ssl.clientAuth", `"need"`},
		{certificates + "tls.clients.authentication=none", cfg, "data zoo.cfg ssl.clientAuth", `"none"`},
		{certificates, set, pod + "volumes tls-clients", `{"name":"tls-clients",` + files + `"c"}}`},
		{certificates, set, serving + "volumeMounts tls-clients", `{"mountPath":"/tls/clients","name":"tls-clients","readOnly":true}`},
		{certificates, set, serving + "ports client-tls containerPort", `2281`},
		{certificates, "Service one", "spec ports", `[{"name":"client","port":2181,"targetPort":"client"},{"name":"client-tls","port":2281,"targetPort":"client-tls"}]`},
		{certificates, "Service one-members", "spec ports client port", `2181`},
		{certificates, "Service one-members", "spec ports client-tls port", `2281`},
		{certificates, "NetworkPolicy one", "spec ingress 1 ports", `[{"port":"client"},{"port":"client-tls"},{"port":"http"}]`},

		// The line of pods that kubectl scale adds has a port for plain clients, so there is none without such clients.
		{"", cfg, "data zoo.cfg members.line", `"one-{ordinal}.one-members:2888:3888;2181"`},
		{certificates, cfg, "data zoo.cfg members.line", `"one-{ordinal}.one-members:2888:3888;2181"`},
		{tlsAlone, cfg, "data zoo.cfg members.line", `null`},

		// Without plain clients, no line of zoo.cfg names a port for them: the table in docs/security.md has what is open then.
		{tlsAlone, cfg, "data zoo.cfg server.1", `"one-0.one-members:2888:3888"`},
		{tlsAlone, cfg, "data zoo.cfg server.3", `"one-2.one-members:2888:3888"`},
		{tlsAlone, cfg, "data zoo.cfg clientPort", `null`},
		{tlsAlone, set, serving + "ports client", `null`},
		{tlsAlone, "Service one", "spec ports", `[{"name":"client-tls","port":2281,"targetPort":"client-tls"}]`},
		{tlsAlone, "Service one-members", "spec ports client", `null`},
		{tlsAlone, "NetworkPolicy one", "spec ingress 1 ports", `[{"port":"client-tls"},{"port":"http"}]`},

		{issued + " tls.issuer.kind=ClusterIssuer", "Certificate one-members", "spec issuerRef", `{"group":"cert-manager.io","kind":"ClusterIssuer","name":"ca"}`},
		{issued, "Certificate one-members", "spec secretName", `"m"`},
		{issued, "Certificate one-members", "spec dnsNames", `["*.one-members","localhost"]`},
		{issued, "Certificate one-members", "spec ipAddresses", `["127.0.0.1"]`},
		{issued, "Certificate one-members", "spec usages", `["digital signature","key encipherment","server auth","client auth"]`},
		{issued, "Certificate one-members", "spec additionalOutputFormats", `[{"type":"CombinedPEM"}]`},
		{issued, "Certificate one-clients", "spec issuerRef name", `"ca"`},
		{issued, "Certificate one-clients", "spec secretName", `"c"`},
		{issued, "Certificate one-clients", "spec dnsNames", `["one","one.here","one.here.svc","*.one-members","*.one-members.here","*.one-members.here.svc",` +
			`"one-0.one-members","one-1.one-members","one-2.one-members"]`},
		{issued, "Certificate one-clients", "spec usages", `["digital signature","key encipherment","server auth","client auth"]`},
		{issued, "Certificate one-clients", "spec additionalOutputFormats", `[{"type":"CombinedPEM"}]`},
		{"tls.clients.secret=c tls.issuer.name=ca", "Certificate one-members", "spec", `null`},
		{"tls.members.secret=m tls.issuer.name=ca", "Certificate one-clients", "spec", `null`},
		{certificates, "Certificate one-clients", "spec", `null`},
	})
}

// A member reads its own line in zoo.cfg when it starts, so it must be restarted to close the port for plain clients.
func TestPlainPortRestartsThePods(t *testing.T) {
	const checksum = "spec template metadata annotations checksum/config"
	sums := map[string]string{}
	for _, values := range []string{certificates, certificates + "tls.clients.plain=false"} {
		objects, err := render("one", values)
		if err != nil {
			t.Fatal(err)
		}
		sums[brief(field(objects[set], strings.Fields(checksum)))] = values
	}
	if len(sums) != 2 {
		t.Errorf("the checksums of the pods are the same: %v", sums)
	}
}

// Prometheus' operator gets a monitor with its token and rules, and Grafana a dashboard.
func TestMetrics(t *testing.T) {
	const (
		token   = "secrets.metrics.name=p secrets.metrics.key=k "
		monitor = token + "metrics.serviceMonitor.enabled=true "
	)
	checkFeatures(t, []feature{
		{token, cfg, "data zoo.cfg admin.metricsTokenFile", `"/metrics/token"`},
		{token, set, pod + "volumes metrics-token", `{"name":"metrics-token","secret":{"defaultMode":288,"items":[{"key":"k","path":"token"}],"secretName":"p"}}`},
		{token, set, serving + "volumeMounts metrics-token", `{"mountPath":"/metrics","name":"metrics-token","readOnly":true}`},
		{monitor, "ServiceMonitor one", "spec selector matchLabels", `{"app.kubernetes.io/instance":"one","app.kubernetes.io/name":"rollcall"}`},
		{monitor, "ServiceMonitor one", "spec endpoints", `[{"authorization":{"credentials":{"key":"k","name":"p"}},"interval":"15s","path":"/metrics","port":"http",` +
			`"relabelings":[{"replacement":"here/one","targetLabel":"job"}],"scheme":"http"}]`},
		{monitor + "metrics.serviceMonitor.interval=5s", "ServiceMonitor one", "spec endpoints 0 interval", `"5s"`},
		{monitor + "metrics.serviceMonitor.labels.release=prom", "ServiceMonitor one", "metadata labels release", `"prom"`},
		{monitor + certificates + "tls.http=true", "ServiceMonitor one", "spec endpoints 0 scheme", `"https"`},
		{monitor + certificates + "tls.http=true", "ServiceMonitor one", "spec endpoints 0 tlsConfig", `{"ca":{"secret":{"key":"ca.crt","name":"m"}},"serverName":"one-0.one-members"}`},
		{token, "ServiceMonitor one", "spec", `null`},
		{"", "PrometheusRule one", "spec", `null`},
		{"metrics.rules.enabled=true metrics.rules.labels.release=prom", "PrometheusRule one", "metadata labels release", `"prom"`},
		{"", "ConfigMap one-dashboard", "data", `null`},
		{"metrics.dashboard.enabled=true", "ConfigMap one-dashboard", "metadata labels grafana_dashboard", `"1"`},
	})
}

// The rules are those of deploy/alerts.yml with the job of the ServiceMonitor, and the dashboard is deploy/grafana/rollcall.json.
func TestAlertsAndDashboardAreTheTreesOwn(t *testing.T) {
	objects, err := render("one", everything)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../deploy/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	job, _ := field(objects["ServiceMonitor one"], strings.Fields("spec endpoints 0 relabelings 0 replacement")).(string)
	if job != "here/one" || !strings.Contains(string(text), `job="rollcall"`) {
		t.Errorf("the job is %q, and alerts.yml names the job rollcall: %t", job, strings.Contains(string(text), `job="rollcall"`))
	}
	var want any
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(string(text), `job="rollcall"`, `job="`+job+`"`)), &want); err != nil {
		t.Fatal(err)
	}
	if got := differences("", want, at(objects["PrometheusRule one"], "spec")); len(got) > 0 {
		t.Errorf("alerts.yml and the rules differ in %s", strings.Join(got, "\n"))
	}
	dashboard, err := os.ReadFile("../../deploy/grafana/rollcall.json")
	if err != nil {
		t.Fatal(err)
	}
	if at(objects["ConfigMap one-dashboard"], "data", "rollcall.json") != string(dashboard) {
		t.Error("the dashboard is not deploy/grafana/rollcall.json")
	}
}

// The policy lets members, the peers in the values and the chart's own jobs connect.
func TestNetworkPolicy(t *testing.T) {
	const (
		clients = "networkPolicy.clients[0].podSelector.matchLabels.app=web"
		http    = "networkPolicy.http[0].ipBlock.cidr=10.0.0.0/8"
		jobs    = `{"podSelector":{"matchLabels":{"app.kubernetes.io/instance":"one","app.kubernetes.io/name":"rollcall-jobs"}}}`
		members = `{"from":[{"podSelector":{"matchLabels":{"app.kubernetes.io/instance":"one","app.kubernetes.io/name":"rollcall"}}}],"ports":[{"port":"quorum"},{"port":"election"}]}`
	)
	checkFeatures(t, []feature{
		{"networkPolicy.enabled=false", "NetworkPolicy one", "spec", `null`},
		{clients, "NetworkPolicy one", "spec policyTypes", `["Ingress"]`},
		{clients, "NetworkPolicy one", "spec ingress", `[` + members + `,{"from":[` + jobs + `,{"podSelector":{"matchLabels":{"app":"web"}}}],"ports":[{"port":"client"}]},{"ports":[{"port":"http"}]}]`},
		{http, "NetworkPolicy one", "spec ingress", `[` + members + `,{"ports":[{"port":"client"}]},{"from":[` + jobs + `,{"ipBlock":{"cidr":"10.0.0.0/8"}}],"ports":[{"port":"http"}]}]`},
		{clients + " tls.clients.secret=c", "NetworkPolicy one", "spec ingress 1 ports", `[{"port":"client"},{"port":"client-tls"}]`},
		{clients + " tls.clients.secret=c tls.clients.plain=false", "NetworkPolicy one", "spec ingress 1 ports", `[{"port":"client-tls"}]`},
	})
}

// Each member has a Service that leads to it alone.
func TestExternalServices(t *testing.T) {
	checkFeatures(t, []feature{
		{"external.type=LoadBalancer", "Service one-2-external", "spec", `{"externalTrafficPolicy":"Local","ports":[{"name":"client","port":2181,"targetPort":"client"}],` +
			`"selector":{"app.kubernetes.io/instance":"one","app.kubernetes.io/name":"rollcall","statefulset.kubernetes.io/pod-name":"one-2"},"type":"LoadBalancer"}`},
		{"external.type=NodePort", "Service one-0-external", "spec selector statefulset.kubernetes.io/pod-name", `"one-0"`},
		{"external.type=NodePort external.annotations.a=b", "Service one-0-external", "metadata annotations", `{"a":"b"}`},
		{"external.type=NodePort " + certificates, "Service one-0-external", "spec ports", `[{"name":"client","port":2181,"targetPort":"client"},{"name":"client-tls","port":2281,"targetPort":"client-tls"}]`},
		{"external.type=NodePort", "Service one-3-external", "spec", `null`},
		{"external.type=NodePort members=5", "Service one-4-external", "spec type", `"NodePort"`},
		{"", "Service one-0-external", "spec", `null`},
	})
}

// Members make backups on a volume and send their log to an archive, from which jobs make backups and which they check.
func TestBackups(t *testing.T) {
	const (
		archive = "archive.to=s3://b/p archive.endpoint=https://s3:9000 archive.region=r archive.credentials.name=s archive.credentials.key=k "
		jobs    = archive + "backup.schedule=@hourly archive.verify=@daily "
		job     = "spec jobTemplate spec template spec "
		own     = "backup.membersClaim=mine"
		secret  = `{"name":"archive-credentials","secret":{"defaultMode":288,"items":[{"key":"k","path":"credentials"}],"secretName":"s"}}`
	)
	checkFeatures(t, []feature{
		{own, cfg, "data zoo.cfg backup.dir", `"/backups"`},
		{own, set, pod + "volumes backups", `{"name":"backups","persistentVolumeClaim":{"claimName":"mine"}}`},
		{own, set, serving + "volumeMounts backups", `{"mountPath":"/backups","name":"backups"}`},

		{archive, cfg, "data zoo.cfg archive.to", `"s3://b/p"`},
		{archive, cfg, "data zoo.cfg archive.endpoint", `"https://s3:9000"`},
		{archive, cfg, "data zoo.cfg archive.region", `"r"`},
		{archive, cfg, "data zoo.cfg archive.credentialsFile", `"/archive/credentials"`},
		{archive, set, pod + "volumes archive-credentials", secret},
		{archive, set, serving + "volumeMounts archive-credentials", `{"mountPath":"/archive","name":"archive-credentials","readOnly":true}`},
		{archive, "CronJob one-backup", "spec", `null`},
		{archive, "CronJob one-verify", "spec", `null`},
		{archive, "PersistentVolumeClaim one-backup", "spec", `null`},

		{"authorities.configMap=ca", set, serving + "env SSL_CERT_FILE value", `"/authorities/ca.pem"`},
		{"authorities.configMap=ca", set, serving + "volumeMounts authorities", `{"mountPath":"/authorities","name":"authorities","readOnly":true}`},
		{"authorities.configMap=ca authorities.key=k", set, pod + "volumes authorities configMap", `{"items":[{"key":"k","path":"ca.pem"}],"name":"ca"}`},

		{jobs, "CronJob one-backup", "spec schedule", `"@hourly"`},
		{jobs, "CronJob one-verify", "spec schedule", `"@daily"`},
		{jobs, "CronJob one-backup", job + "containers backup args", `["backup","save","--archive","s3://b/p","/backups/"]`},
		{jobs, "CronJob one-verify", job + "containers verify args", `["archive","verify","s3://b/p"]`},
		{jobs, "CronJob one-backup", job + "volumes backups persistentVolumeClaim claimName", `"one-backup"`},
		{jobs, "CronJob one-backup", job + "containers backup volumeMounts backups", `{"mountPath":"/backups","name":"backups"}`},
		{jobs, "PersistentVolumeClaim one-backup", "metadata annotations", `{"helm.sh/resource-policy":"keep"}`},
		{jobs, "PersistentVolumeClaim one-backup", "spec", `{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"10Gi"}}}`},
		{jobs + "backup.size=2Gi backup.className=slow", "PersistentVolumeClaim one-backup", "spec", `{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"2Gi"}},"storageClassName":"slow"}`},
		{jobs + "backup.claim=mine", "CronJob one-backup", job + "volumes backups persistentVolumeClaim claimName", `"mine"`},
		{jobs + "backup.claim=mine", "PersistentVolumeClaim one-backup", "spec", `null`},
	})
	for _, name := range []string{"backup", "verify"} {
		cron, container := "CronJob one-"+name, job+"containers "+name+" "
		values := jobs + "authorities.configMap=ca imagePullSecrets[0].name=registry nodeSelector.disk=ssd tolerations[0].key=k image.pullPolicy=Always labels.team=a " +
			"extraEnv[0].name=A extraEnv[0].value=b extraVolumes[0].name=v extraVolumes[0].emptyDir.medium=Memory extraVolumeMounts[0].name=v extraVolumeMounts[0].mountPath=/v"
		checkFeatures(t, []feature{
			{values, cron, "spec concurrencyPolicy", `"Forbid"`},
			{values, cron, "spec successfulJobsHistoryLimit", `1`},
			{values, cron, "spec failedJobsHistoryLimit", `3`},
			{values, cron, "spec jobTemplate spec backoffLimit", `1`},
			{values, cron, "spec jobTemplate spec activeDeadlineSeconds", `7200`},
			{values, cron, "spec jobTemplate spec template metadata labels", `{"app.kubernetes.io/instance":"one","app.kubernetes.io/name":"rollcall-jobs","team":"a"}`},
			{values, cron, job + "restartPolicy", `"Never"`},
			{values, cron, job + "automountServiceAccountToken", `false`},
			{values, cron, job + "enableServiceLinks", `false`},
			{values, cron, job + "imagePullSecrets", `[{"name":"registry"}]`},
			{values, cron, job + "nodeSelector", `{"disk":"ssd"}`},
			{values, cron, job + "tolerations", `[{"key":"k"}]`},
			{values, cron, job + "securityContext", podSecurity},
			{values, cron, container + "securityContext", containerSecurity},
			{values, cron, container + "image", `"rollcall:0.1.0-dev"`},
			{values, cron, container + "imagePullPolicy", `"Always"`},
			{values, cron, container + "resources limits", `{"memory":"1Gi"}`},
			{values, cron, container + "env", `[{"name":"AWS_ENDPOINT_URL","value":"https://s3:9000"},{"name":"AWS_REGION","value":"r"},` +
				`{"name":"AWS_SHARED_CREDENTIALS_FILE","value":"/archive/credentials"},{"name":"SSL_CERT_FILE","value":"/authorities/ca.pem"},{"name":"A","value":"b"}]`},
			{values, cron, container + "volumeMounts tmp", `{"mountPath":"/tmp","name":"tmp"}`},
			{values, cron, container + "volumeMounts archive-credentials", `{"mountPath":"/archive","name":"archive-credentials","readOnly":true}`},
			{values, cron, container + "volumeMounts authorities", `{"mountPath":"/authorities","name":"authorities","readOnly":true}`},
			{values, cron, container + "volumeMounts v", `{"mountPath":"/v","name":"v"}`},
			{values, cron, job + "volumes tmp", `{"emptyDir":{},"name":"tmp"}`},
			{values, cron, job + "volumes archive-credentials", secret},
			{values, cron, job + "volumes authorities configMap name", `"ca"`},
			{values, cron, job + "volumes v", `{"emptyDir":{"medium":"Memory"},"name":"v"}`},
		})
	}
}

// helm test runs a client and an operator.
func TestReleaseTest(t *testing.T) {
	const (
		https   = certificates + "tls.http=true "
		release = "Pod one-test"
		files   = `"secret":{"defaultMode":288,"items":[{"key":"tls-combined.pem","path":"member.pem"},{"key":"ca.crt","path":"ca.pem"}],"secretName":`
		all     = https + "image.pullPolicy=Always imagePullSecrets[0].name=registry nodeSelector.disk=ssd tolerations[0].key=k labels.team=a secrets.token.key=k"
	)
	checkFeatures(t, []feature{
		{"", release, "metadata annotations", `{"helm.sh/hook":"test","helm.sh/hook-delete-policy":"before-hook-creation,hook-succeeded"}`},
		{"", release, "spec containers client args", `["ls","/","--hosts","one:2181"]`},
		{"", release, "spec containers client volumeMounts", `null`},
		{certificates, release, "spec containers client args", `["ls","/","--hosts","one:2281","--tls-ca","/tls/clients/ca.pem","--tls-cert","/tls/clients/member.pem"]`},
		{certificates, release, "spec containers client volumeMounts", `[{"mountPath":"/tls/clients","name":"tls-clients","readOnly":true}]`},
		{certificates, release, "spec volumes tls-clients", `{"name":"tls-clients",` + files + `"c"}}`},
		{"", release, "spec containers operator args", `["status"]`},
		{"", release, "spec containers operator env", `[{"name":"ROLLCALL_TOKEN_FILE","value":"/token/token"},` +
			`{"name":"ROLLCALL_ADMIN","value":"http://one-0.one-members:8080,http://one-1.one-members:8080,http://one-2.one-members:8080"}]`},
		{https, release, "spec containers operator env ROLLCALL_ADMIN value", `"https://one-0.one-members:8080,https://one-1.one-members:8080,https://one-2.one-members:8080"`},
		{https, release, "spec containers operator env ROLLCALL_TLS_CA value", `"/tls/members/ca.pem"`},
		{"", release, "spec containers operator volumeMounts", `[{"mountPath":"/token","name":"token","readOnly":true}]`},
		{https, release, "spec containers operator volumeMounts tls-members", `{"mountPath":"/tls/members","name":"tls-members","readOnly":true}`},
		{https, release, "spec volumes tls-members", `{"name":"tls-members",` + files + `"m"}}`},
		{all, release, "spec volumes token", `{"name":"token","secret":{"defaultMode":288,"items":[{"key":"k","path":"token"}],"secretName":"rollcall-token"}}`},
		{all, release, "metadata labels", `{"app.kubernetes.io/instance":"one","app.kubernetes.io/name":"rollcall-jobs","team":"a"}`},
		{all, release, "spec restartPolicy", `"Never"`},
		{all, release, "spec automountServiceAccountToken", `false`},
		{all, release, "spec enableServiceLinks", `false`},
		{all, release, "spec imagePullSecrets", `[{"name":"registry"}]`},
		{all, release, "spec nodeSelector", `{"disk":"ssd"}`},
		{all, release, "spec tolerations", `[{"key":"k"}]`},
		{all, release, "spec securityContext", podSecurity},
		{all, release, "spec containers client securityContext", containerSecurity},
		{all, release, "spec containers operator securityContext", containerSecurity},
		{all, release, "spec containers client image", `"rollcall:0.1.0-dev"`},
		{all, release, "spec containers operator image", `"rollcall:0.1.0-dev"`},
		{all, release, "spec containers client imagePullPolicy", `"Always"`},
		{all, release, "spec containers operator imagePullPolicy", `"Always"`},
		{all, set, pod + "securityContext", podSecurity},
		{all, set, serving + "securityContext", containerSecurity},
	})
}

// What every pod of the chart has, as the standard "restricted" of Kubernetes asks for.
const (
	podSecurity       = `{"fsGroup":1000,"fsGroupChangePolicy":"OnRootMismatch","runAsGroup":1000,"runAsNonRoot":true,"runAsUser":1000,"seccompProfile":{"type":"RuntimeDefault"}}`
	containerSecurity = `{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"readOnlyRootFilesystem":true}`
)

// everything sets all values that add objects.
const everything = certificates + "tls.http=true tls.issuer.name=ca secrets.metrics.name=p metrics.serviceMonitor.enabled=true " +
	"metrics.rules.enabled=true metrics.dashboard.enabled=true external.type=NodePort " +
	"backup.membersClaim=mine backup.schedule=@hourly archive.to=s3://bucket/p archive.verify=@daily archive.credentials.name=s authorities.configMap=ca labels.team=a"

// Every object has the labels of the values, and nothing selects pods by them: a selector of a StatefulSet cannot be changed later.
func TestLabelsOfTheValues(t *testing.T) {
	objects, err := renderAll("one", everything)
	if err != nil {
		t.Fatal(err)
	}
	if len(objects) != 21 {
		t.Errorf("there are %d objects: %v", len(objects), slices.Sorted(maps.Keys(objects)))
	}
	for name, o := range objects {
		if at(o, "metadata", "labels", "team") != "a" {
			t.Errorf("%s has no label of the values", name)
		}
		for _, selector := range []string{"selector", "podSelector"} {
			if got := brief(at(o, "spec", selector)); strings.Contains(got, "team") {
				t.Errorf("%s selects by a label of the values: %s", name, got)
			}
		}
	}
	for _, key := range chartsOwn {
		if key == "checksum/config" { // an annotation
			continue
		}
		if _, err := render("one", "labels."+strings.ReplaceAll(key, ".", `\.`)+"=mine"); err == nil || !strings.Contains(err.Error(), "the chart sets "+key+" itself") {
			t.Errorf("the label %s: %v", key, err)
		}
	}
	if _, err := render("one", `labels.app\.kubernetes\.io/name=mine`); err == nil || !strings.Contains(err.Error(), "the chart sets app.kubernetes.io/name itself") {
		t.Errorf("the label of the selectors: %v", err)
	}
}

// Kubernetes rejects a change of these fields of a StatefulSet. So no value changes them, apart from those of storage, and no
// release does: they are what the first chart made.
func TestFixedFieldsStay(t *testing.T) {
	const (
		metadata = `"metadata":{"name":"data"}`
		spec     = `"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"10Gi"}}}`
	)
	for _, values := range []string{"", everything, "members=5", "antiAffinity=required"} {
		checkFeatures(t, []feature{
			{values, set, "spec serviceName", `"one-members"`},
			{values, set, "spec podManagementPolicy", `"Parallel"`},
			{values, set, "spec selector", `{"matchLabels":{"app.kubernetes.io/instance":"one","app.kubernetes.io/name":"rollcall"}}`},
			{values, set, "spec volumeClaimTemplates", `[{` + metadata + `,` + spec + `}]`},
			{values, "Service one-members", "spec clusterIP", `"None"`},
		})
	}
}

// A wrong key is rejected in every object of the values.
func TestWrongKeysAreRejected(t *testing.T) {
	text, err := os.ReadFile(chartDirectory + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values object
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	free := []string{"nodeSelector", "labels", "podAnnotations", "config", "external.annotations", "resources.requests", "resources.limits"}
	checked := 0
	var walk func(prefix string, o object)
	walk = func(prefix string, o object) {
		for key, value := range o {
			m, isMap := value.(object)
			path := prefix + key
			if !isMap || slices.Contains(free, path) || strings.HasSuffix(path, ".labels") {
				continue
			}
			checked++
			if _, err := render("one", path+".wrongKey=1"); err == nil || !strings.Contains(err.Error(), "wrongKey") {
				t.Errorf("%s.wrongKey: %v, want an error that names it", path, err)
			}
			walk(path+".", m)
		}
	}
	walk("", values)
	if checked < 22 {
		t.Errorf("%d objects were tried", checked)
	}
	if _, err := render("one", "wrongKey=1"); err == nil || !strings.Contains(err.Error(), "wrongKey") {
		t.Errorf("wrongKey: %v, want an error that names it", err)
	}
}

// Every object of the schema says which keys it takes.
func TestSchemaIsClosed(t *testing.T) {
	text, err := os.ReadFile(chartDirectory + "/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema any
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		m, _ := v.(object)
		if additional, said := m["additionalProperties"]; m["type"] == "object" && (!said || additional == true && m["description"] == nil) {
			t.Errorf("%s takes any key", path)
		}
		for key, value := range m {
			walk(path+"/"+key, value)
		}
	}
	walk("", schema)
}
