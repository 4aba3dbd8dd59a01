package chart

import (
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const (
	jobContainer = "spec jobTemplate spec template spec containers "
	// jobPatience limits the wait for an archive, which a server fills each second.
	jobPatience = time.Minute
)

// jobArguments returns the arguments of the container of a CronJob.
func jobArguments(t *testing.T, name, values string) (args []string) {
	t.Helper()
	objects, err := render("one", values)
	if err != nil {
		t.Fatal(err)
	}
	list, _ := field(objects["CronJob one-"+name], strings.Fields(jobContainer+name+" args")).([]any)
	for _, arg := range list {
		args = append(args, arg.(string))
	}
	return args
}

// A server sends its log to an archive. Then the jobs of the chart find it sound, and make a backup of it, without the server.
func TestJobsReadTheArchive(t *testing.T) {
	program, dir := buildProgram(t), t.TempDir()
	archive, backups := filepath.Join(dir, "archive"), filepath.Join(dir, "backups")
	for _, directory := range []string{archive, backups} {
		if err := os.Mkdir(directory, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	values := "archive.to=" + archive + " archive.verify=@daily backup.schedule=@hourly"
	verify, save := jobArguments(t, "verify", values), jobArguments(t, "backup", values)
	if len(save) == 0 || save[len(save)-1] != "/backups/" {
		t.Fatalf("the job makes its backup by %q", save)
	}
	save[len(save)-1] = backups + "/"

	stop, address := startServer(t, program, dir, archive)
	if out, err := run(t, program, "create", "--hosts", address, "/n", "data"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	eventually(t, "the archive is sound", func() (string, bool) {
		out, err := run(t, program, verify...)
		return out, err == nil
	})
	stop()
	if out, err := run(t, program, save...); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := run(t, program, "backup", "verify", backups); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if files, err := filepath.Glob(backups + "/*.backup"); err != nil || len(files) != 1 {
		t.Errorf("the job has made %q, %v, want one backup", files, err)
	}
}

// The containers of helm test succeed at a server, and fail when it is gone.
func TestReleaseTestRuns(t *testing.T) {
	program, dir := buildProgram(t), t.TempDir()
	stop, address := startServer(t, program, dir, "")
	objects, err := renderAll("one", "")
	if err != nil {
		t.Fatal(err)
	}
	here := strings.NewReplacer("one:2181", address, "/token/token", filepath.Join(dir, "token"),
		"http://one-0.one-members:8080,http://one-1.one-members:8080,http://one-2.one-members:8080", "http://"+operatorAddress(address))
	runAll := func(wantError bool) {
		t.Helper()
		for _, name := range []string{"client", "operator"} {
			container, _ := field(objects["Pod one-test"], []string{"spec", "containers", name}).(object)
			var args []string
			list, _ := container["args"].([]any)
			for _, arg := range list {
				args = append(args, here.Replace(arg.(string)))
			}
			command := exec.CommandContext(t.Context(), program, args...)
			variables, _ := container["env"].([]any)
			for _, v := range variables {
				command.Env = append(command.Env, v.(object)["name"].(string)+"="+here.Replace(v.(object)["value"].(string)))
			}
			if out, err := command.CombinedOutput(); (err != nil) != wantError || len(args) == 0 {
				t.Errorf("%s %q: %v, want an error: %t: %s", name, args, err, wantError, out)
			}
		}
	}
	runAll(false)
	stop()
	runAll(true)
}

// operatorAddress returns where a server of startServer takes operators, by its address for clients: the same port at another
// address of this machine.
func operatorAddress(clients string) string {
	return "127.0.0.2" + clients[strings.LastIndex(clients, ":"):]
}

// startServer starts a server, which has an archive unless that is "". It returns its address for clients and what stops it.
func startServer(t *testing.T, program, dir, archive string) (stop func(), address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	path, token, port := filepath.Join(dir, "zoo.cfg"), filepath.Join(dir, "token"), address[strings.LastIndex(address, ":")+1:]
	lines := []string{
		"dataDir=" + dir + "/data", "clientPortAddress=127.0.0.1", "clientPort=" + port, "admin.serverAddress=127.0.0.2", "admin.serverPort=" + port,
		"admin.tokenFile=" + token,
	}
	if archive != "" {
		lines = append(lines, "archive.to="+archive, "archive.seconds=1")
	}
	for file, text := range map[string]string{path: strings.Join(lines, "\n"), token: strings.Repeat("x", 32)} {
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := exec.Command(program, "serve", path)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	stop = func() {
		if !ended {
			ended = true
			_ = server.Process.Kill() // it may have ended
			_ = server.Wait()         // killed
		}
	}
	t.Cleanup(stop)
	eventually(t, "the server serves", func() (string, bool) {
		out, err := run(t, program, "ls", "--hosts", address, "/")
		return out, err == nil
	})
	return stop, address
}

// eventually waits until something holds, and fails the test with the last reason if it never does.
func eventually(t *testing.T, what string, holds func() (reason string, ok bool)) {
	t.Helper()
	for deadline := time.Now().Add(jobPatience); ; time.Sleep(100 * time.Millisecond) {
		reason, ok := holds()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v: %s", what, jobPatience, reason)
		}
	}
}

// run runs the program, and returns what it prints.
func run(t *testing.T, program string, args ...string) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	return string(out), err
}

// A job speaks to a bucket whose certificate is signed by the authority in the ConfigMap, and to no other one.
func TestJobsTrustTheAuthorities(t *testing.T) {
	program, dir := buildProgram(t), t.TempDir()
	var requests atomic.Int64
	bucket := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusForbidden)
	}))
	defer bucket.Close()
	authority := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: bucket.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	credentials := filepath.Join(dir, "credentials")
	if err := os.WriteFile(credentials, []byte("[default]\naws_access_key_id = a\naws_secret_access_key = b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const values = "archive.to=s3://bucket/p archive.verify=@daily archive.region=r archive.credentials.name=s archive.endpoint="
	for _, tt := range []struct {
		values  string
		reaches bool
	}{{"", false}, {" authorities.configMap=ca", true}} {
		requests.Store(0)
		objects, err := render("one", values+bucket.URL+tt.values)
		if err != nil {
			t.Fatal(err)
		}
		job := exec.CommandContext(t.Context(), program, jobArguments(t, "verify", values+bucket.URL+tt.values)...)
		list, _ := field(objects["CronJob one-verify"], strings.Fields(jobContainer+"verify env")).([]any)
		for _, v := range list {
			variable := v.(object)
			value := strings.NewReplacer("/authorities/ca.pem", authority, "/archive/credentials", credentials).Replace(variable["value"].(string))
			job.Env = append(job.Env, variable["name"].(string)+"="+value)
		}
		if len(job.Env) == 0 {
			t.Fatal("the job has no variables")
		}
		out, err := job.CombinedOutput()
		if err == nil || (requests.Load() > 0) != tt.reaches || strings.Contains(string(out), "certificate") == tt.reaches {
			t.Errorf("with%q, the bucket got %d requests, and the job printed %s (%v)", tt.values, requests.Load(), out, err)
		}
	}
}
