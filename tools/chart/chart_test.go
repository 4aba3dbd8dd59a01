package chart

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// With its own values, the chart makes what deploy/kubernetes has, field by field: probes, ports, security contexts,
// volumes, the disruption budget and all others. Only the image has a tag.
func TestChartMakesTheManifests(t *testing.T) {
	rendered, err := render("rollcall", "")
	if err != nil {
		t.Fatal(err)
	}
	got := compare(plainAll(manifests(t)), plainAll(rendered))
	want := []string{`StatefulSet rollcall /spec/template/spec/containers/0/image: "rollcall" and "rollcall:0.1.0-dev"`}
	if !slices.Equal(got, want) {
		t.Errorf("the manifests and the chart differ in\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// With five members, the template of the pods is the same as with three, so no pod is restarted, and each pod has its server line.
func TestFiveMembers(t *testing.T) {
	three, err := render("rollcall", "")
	if err != nil {
		t.Fatal(err)
	}
	five, err := render("rollcall", "members=5")
	if err != nil {
		t.Fatal(err)
	}
	got := compare(plainAll(three), plainAll(five))
	want := []string{
		`ConfigMap rollcall /data/zoo.cfg/server.4: null and "rollcall-3.rollcall-members:2888:3888;2181"`,
		`ConfigMap rollcall /data/zoo.cfg/server.5: null and "rollcall-4.rollcall-members:2888:3888;2181"`,
		`StatefulSet rollcall /spec/replicas: 3 and 5`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("five members change\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	template := []string{"spec", "template"}
	if got := differences("", at(three["StatefulSet rollcall"], template...), at(five["StatefulSet rollcall"], template...)); len(got) > 0 {
		t.Errorf("the pods' template changes in %s", strings.Join(got, "\n"))
	}
}

// Each value changes the fields that it is for, and no others.
func TestValuesReachTheirFields(t *testing.T) {
	const (
		pod   = "StatefulSet rollcall /spec/template/spec"
		claim = "StatefulSet rollcall /spec/volumeClaimTemplates/0/spec"
		cfg   = "ConfigMap rollcall /data/zoo.cfg"

		mounts = `{"mountPath":"/data","name":"data"},{"mountPath":"/conf","name":"config","readOnly":true},` +
			`{"mountPath":"/token","name":"token","readOnly":true},{"mountPath":"/secret","name":"secret","readOnly":true}`
		volumes = `{"configMap":{"name":"rollcall"},"name":"config"},{"name":"token","secret":{"defaultMode":288,"secretName":"rollcall-token"}},` +
			`{"name":"secret","secret":{"defaultMode":288,"secretName":"rollcall-secret"}}`
	)
	for _, tt := range []struct{ set, want string }{
		{"image.repository=registry.example.com/rollcall image.tag=0.1.0", pod + `/containers/0/image: "rollcall:0.1.0-dev" and "registry.example.com/rollcall:0.1.0"`},
		{"image.pullPolicy=Always", pod + `/containers/0/imagePullPolicy: null and "Always"`},
		{"imagePullSecrets[0].name=registry", pod + `/imagePullSecrets: null and [{"name":"registry"}]`},
		{"storage.className=fast", claim + `/storageClassName: null and "fast"`},
		{"storage.size=20Gi", claim + `/resources/requests/storage: "10Gi" and "20Gi"`},
		{"resources.requests.cpu=2", pod + `/containers/0/resources/requests/cpu: "500m" and 2`},
		{"secrets.ensemble.name=mine", pod + `/volumes/2/secret/secretName: "rollcall-secret" and "mine"`},
		{"secrets.ensemble.key=k", pod + `/volumes/2/secret/items: null and [{"key":"k","path":"secret"}]`},
		{"secrets.token.name=mine", pod + `/volumes/1/secret/secretName: "rollcall-token" and "mine"`},
		{"secrets.token.key=k", pod + `/volumes/1/secret/items: null and [{"key":"k","path":"token"}]`},
		{"secrets.otlpHeaders.name=mine secrets.otlpHeaders.key=k", cfg + `/otlp.headersFile: null and "/otlp/headers"` + "\n" +
			pod + `/containers/0/volumeMounts: [` + mounts + `] and [` + mounts + `,{"mountPath":"/otlp","name":"otlp-headers","readOnly":true}]` + "\n" +
			pod + `/volumes: [` + volumes + `] and [` + volumes + `,{"name":"otlp-headers","secret":{"defaultMode":288,"items":[{"key":"k","path":"headers"}],"secretName":"mine"}}]`},
		{`config.otlp\.endpoint=https://collector:4318`, cfg + `/otlp.endpoint: null and "https://collector:4318"`},
		{`config.otlp\.metricsInterval=15000`, cfg + `/otlp.metricsInterval: null and "15000"`},
		{`config.otlp\.traces=false`, cfg + `/otlp.traces: null and "false"`},
		{"config.tickTime=1000", cfg + `/tickTime: "2000" and "1000"`},
		{"config.snapCount=2000000", cfg + `/snapCount: null and "2000000"`},
		{"config.logFormat=null", cfg + `/logFormat: "json" and null`},
		{"members=4", cfg + `/server.4: null and "rollcall-3.rollcall-members:2888:3888;2181"` + "\n" + `StatefulSet rollcall /spec/replicas: 3 and 4`},
	} {
		before, err := render("rollcall", "")
		if err != nil {
			t.Fatal(err)
		}
		after, err := render("rollcall", tt.set)
		if err != nil {
			t.Errorf("%s: %v", tt.set, err)
			continue
		}
		if got := strings.Join(compare(plainAll(before), plainAll(after)), "\n"); got != tt.want {
			t.Errorf("%s changes\n%s\nwant\n%s", tt.set, got, tt.want)
		}
		sum := func(objects map[string]object) any {
			return at(objects["StatefulSet rollcall"], "spec", "template", "metadata", "annotations", "checksum/config")
		}
		if restarts := strings.HasPrefix(tt.want, cfg) && !strings.HasPrefix(tt.want, cfg+"/server."); restarts == (sum(before) == sum(after)) {
			t.Errorf("%s: the pods have the checksums %v and %v; they must restart if a key of zoo.cfg changes that is no server line", tt.set, sum(before), sum(after))
		}
	}
}

// Two releases in one namespace share no name, and none selects the other's pods.
func TestReleasesAreApart(t *testing.T) {
	one, err := render("one", "")
	if err != nil {
		t.Fatal(err)
	}
	two, err := render("two", "")
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range one {
		if two[name] != nil {
			t.Errorf("both releases have %s", name)
		}
		renamed := strings.NewReplacer("one-", "two-", `"one"`, `"two"`).Replace(brief(plain(o)))
		if twin := two[strings.Replace(name, " one", " two", 1)]; renamed != brief(plain(twin)) {
			t.Errorf("%s of one release is\n%s\nand of the other\n%s", name, renamed, brief(plain(twin)))
		}
	}
	const instance = `"app.kubernetes.io/instance":"one"`
	for _, tt := range []struct {
		object string
		path   []string
	}{
		{"Service one", []string{"spec", "selector"}},
		{"Service one-members", []string{"spec", "selector"}},
		{"StatefulSet one", []string{"spec", "selector"}},
		{"StatefulSet one", []string{"spec", "template", "metadata", "labels"}},
		{"StatefulSet one", []string{"spec", "template", "spec", "affinity"}},
		{"PodDisruptionBudget one", []string{"spec", "selector"}},
		{"NetworkPolicy one", []string{"spec", "podSelector"}},
		{"NetworkPolicy one", []string{"spec", "ingress"}},
	} {
		if got := brief(at(one[tt.object], tt.path...)); !strings.Contains(got, instance) {
			t.Errorf("%s %v is %s, which does not name the release", tt.object, tt.path, got)
		}
	}
}

// A cluster of one node can schedule all members of the chart and of the manifests, unless the values say otherwise.
func TestOneNodeIsEnough(t *testing.T) {
	required, err := render("rollcall", "antiAffinity=required")
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := render("rollcall", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		objects map[string]object
		apart   bool
	}{{"the chart", rendered, false}, {"the manifests", manifests(t), false}, {"the chart with antiAffinity=required", required, true}} {
		pod := at(tt.objects["StatefulSet rollcall"], "spec", "template", "spec")
		placing := brief(at(pod, "affinity")) + brief(at(pod, "topologySpreadConstraints"))
		if !strings.Contains(placing, "kubernetes.io/hostname") || tt.apart != (strings.Contains(placing, `"requiredDuring`) || strings.Contains(placing, "DoNotSchedule")) {
			t.Errorf("%s has %s; want that it needs a node for each member: %t", tt.name, placing, tt.apart)
		}
	}
}

// A value that the chart does not take is an error that names it.
func TestChartRejectsValues(t *testing.T) {
	for _, tt := range []struct{ set, want string }{
		{"storageClass=fast", "storageClass"},
		{"storage.class=fast", "class"},
		{"members=0", "members"},
		{"members=10", "members"},
		{"antiAffinity=none", "antiAffinity"},
		{"tls.http=true", "set tls.members.secret"},
		{"tls.issuer.name=ca", "set tls.members.secret or tls.clients.secret"},
		{"tls.clients.plain=false", "set tls.clients.secret"},
		{"tls.clients.authentication=maybe", "authentication"},
		{"tls.members.secret=m config.sslQuorum=false", "config.sslQuorum: the chart sets this key itself"},
		{`tls.members.secret=m config.members\.join=off`, "config.members.join: the chart sets this key itself"},
		{"config.clientPortAddress=127.0.0.1", "config.clientPortAddress: the chart sets this key itself"},
		{"metrics.serviceMonitor.enabled=true", "set secrets.metrics.name"},
		{"external.type=ClusterIP", "external"},
		{"networkPolicy.clients[0].pods=x", "networkPolicy"},
		{"archive.verify=@daily", "set archive.to"},
		{"archive.endpoint=https://s3", "set archive.to"},
		{"archive.region=r", "set archive.to"},
		{"archive.credentials.name=s", "set archive.to"},
		{"backup.schedule=@daily", "set archive.to"},
		{"archive.to=bucket", "archive"},
		{"tls=null", "tls: the values have none"},
		{"archive=null", "archive: the values have none"},
		{"authorities=null", "authorities: the values have none"},
		{"backup=null", "backup: the values have none"},
		{"external=null", "external: the values have none"},
		{"metrics=null", "metrics: the values have none"},
		{"networkPolicy=null", "networkPolicy: the values have none"},
		{"secrets=null", "secrets: the values have none"},
		{"topologySpread[0].topologyKey=zone", "topologySpread"},
		{"resources.request.cpu=1", "request"},
		{"tolerations[0].keys=k", "keys"},
		{"extraEnv[0].value=1", "extraEnv"},
		{"extraVolumes[0].name=v", "extraVolumes"},
		{"extraVolumeMounts[0].name=v", "extraVolumeMounts"},
		{"image.pullPolicy=Sometimes", "pullPolicy"},
		{"secrets.token.name=", "token"},
		{"config.dataDir=/elsewhere", "config.dataDir: the chart sets this key itself"},
		{`config.server\.1=a:1:2`, "config.server.1: the chart sets this key itself"},
		{`secrets.otlpHeaders.name=mine config.otlp\.headersFile=/elsewhere`, "config.otlp.headersFile: the chart sets this key itself"},
		{"secrets.otlpHeaders.key=", "otlpHeaders"},
		{"config.clientPort=2182", "config.clientPort: the chart sets this key itself"},
	} {
		if _, err := render("rollcall", tt.set); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error with %q", tt.set, err, tt.want)
		}
	}
}

// The commands of docs/kubernetes.md that install and upgrade the chart render.
func TestKubernetesPageInstallsTheChart(t *testing.T) {
	page, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)^ {4,6}helm (?:install|upgrade) (\S+) deploy/chart((?: \\\n? *--set \S+| --set \S+| --reset-then-reuse-values)*)$`).FindAllStringSubmatch(string(page), -1)
	if all := len(regexp.MustCompile(`(?m)^ +helm (?:install|upgrade) `).FindAllString(string(page), -1)); len(commands) != all || all == 0 {
		t.Fatalf("this test reads %d of the %d helm commands of the page", len(commands), all)
	}
	for _, m := range commands {
		if _, err := render(m[1], strings.NewReplacer("--set", " ", `\`, " ", "--reset-then-reuse-values", " ").Replace(m[2])); err != nil {
			t.Errorf("%s: %v", m[0], err)
		}
	}
}
