package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rollcall/cli"
	"rollcall/client"
	"rollcall/rollcalltest"
)

// surveyedProgram is the environment variable that makes this test binary a program under `rollcall proxy`.
const surveyedProgram = "ROLLCALL_TEST_SURVEYED"

// surveyedTimeout is long enough for a program that waits for a processor: no test here waits until a session expires.
const surveyedTimeout = 10 * time.Second

// TestSurveyedProgram is that program: it adds to a counter twice, and takes a lost reply for a lost write unless it is
// careful.
func TestSurveyedProgram(t *testing.T) {
	kind := os.Getenv(surveyedProgram)
	if kind == "" {
		return
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	c, err := client.Dial(ctx, os.Getenv("ROLLCALL_CONNECT"), client.Config{Timeout: surveyedTimeout})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Abandon()
	if kind == "hangup" { // it ends only with the command
		if err := syscall.Kill(os.Getppid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
	}
	for want := int32(1); want <= 2; want++ {
		for {
			stat, _, err := c.Exists(ctx, "/")
			if err == nil && (kind != "careful" || stat.Version < want) {
				_, err = c.Set(ctx, "/", nil, client.AnyVersion)
			}
			if err == nil {
				break
			}
			if !client.MayHaveHappened(err) {
				t.Fatal(err)
			}
		}
	}
	if stat, _, err := c.Exists(ctx, "/"); err != nil || stat.Version != 2 {
		t.Fatalf("written %d times, %v", stat.Version, err)
	}
}

// surveyProgram runs `rollcall proxy` with flags on this test binary.
func surveyProgram(t *testing.T, kind string, flags ...string) (out, errs string, err error) {
	t.Helper()
	t.Setenv(surveyedProgram, kind)
	var stdout, stderr bytes.Buffer
	args := slices.Concat([]string{"proxy", "--session-timeout=" + surveyedTimeout.String()}, flags, []string{"--", os.Args[0], "-test.run=^TestSurveyedProgram$"})
	err = runCommandLine(t.Context(), args, cli.IOStreams{In: strings.NewReader(""), Out: &stdout, Err: &stderr, Now: time.Now})
	return stdout.String(), stderr.String(), err
}

// A program that writes twice is found, with the request, and the command line that the report prints finds it again.
// Reports are written to the files.
func TestProxyFindsAProgram(t *testing.T) {
	dir := t.TempDir()
	page, data := filepath.Join(dir, "report.html"), filepath.Join(dir, "report.json")
	out, errs, err := surveyProgram(t, "careless", "--faults", "after", "--report", page, "--json", data)
	if !errors.Is(err, errProxyBroke) || cli.StatusOf(err) != 1 {
		t.Fatalf("%v\n%s%s", err, out, errs)
	}
	for n := 1; n <= 2; n++ {
		if want := fmt.Sprintf("broke       after  at s1 setData / #%d; exit status 1; and once more when it was repeated\n", n); !strings.Contains(out, want) {
			t.Errorf("the report lacks %q:\n%s", want, out)
		}
	}
	if !strings.Contains(errs, "recorded 6 requests in 1 session") || !strings.Contains(out, "the program survived 4 of 6 faults\n") {
		t.Errorf("it printed\n%s%s", out, errs)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "The program broke at 2 faults") {
		t.Errorf("the page: %v", err)
	}
	var result struct{ Command []string }
	if text, err := os.ReadFile(data); err != nil || json.Unmarshal(text, &result) != nil || len(result.Command) != 2 {
		t.Errorf("the JSON: %v, %v", result, err)
	}
	again := regexp.MustCompile(`to repeat it: rollcall proxy --faults=after --session-timeout=10s (--seed=\d+) '--repeat-at=(.*?)' -- `).FindStringSubmatch(out)
	if again == nil {
		t.Fatalf("there is no command line in\n%s", out)
	}
	out, errs, err = surveyProgram(t, "careless", "--faults=after", again[1], "--repeat-at="+again[2])
	if !errors.Is(err, errProxyBroke) || !strings.Contains(out, "the program survived 0 of 1 fault\n") {
		t.Errorf("repeated: %v\n%s%s", err, out, errs)
	}
}

// A program that looks before it writes again survives, on an ensemble that is given, too.
func TestProxySurvivedByAProgram(t *testing.T) {
	srv := rollcalltest.Start(t)
	for _, tt := range []struct {
		flags  []string
		faults int
	}{
		{[]string{"--jobs=2"}, 12},
		{[]string{"--servers", srv.ConnectString()}, 14}, // with a chroot, the program's client asks first whether that is there
	} {
		out, errs, err := surveyProgram(t, "careful", append(tt.flags, "--faults=before,after")...)
		if want := fmt.Sprintf("the program survived %d of %d faults\n", tt.faults, tt.faults); err != nil || !strings.Contains(out, want) {
			t.Errorf("%q: %v\n%s%s", tt.flags, err, out, errs)
		}
	}
}

// A survey in which no fault happened has shown nothing. Its exit status is 1, and the error says why.
func TestProxyShowsNothing(t *testing.T) {
	srv := rollcalltest.Start(t)
	for _, tt := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--repeat-at=s1 create /old #1:after"}, "no fault happened, so it is not known whether"},
		{[]string{"--servers", srv.ConnectString(), "--faults=move"}, "no fault happened: move cannot happen at any request"},
	} {
		out, errs, err := surveyProgram(t, "careful", tt.flags...)
		if err == nil || cli.StatusOf(err) != cli.Failed || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q\n%s%s", tt.flags, err, tt.want, out, errs)
		}
	}
}

// proxyProcess is the environment variable that makes this test binary run its arguments as the command line.
const proxyProcess = "ROLLCALL_TEST_PROXY"

// TestProxyProcess is that process.
func TestProxyProcess(t *testing.T) {
	if os.Getenv(proxyProcess) == "" {
		return
	}
	err := runCommandLine(t.Context(), flag.Args(), cli.ProcessStreams())
	if err != nil {
		fmt.Fprintln(os.Stderr, "rollcall:", errorLine(err))
	}
	os.Exit(int(cli.StatusOf(err)))
}

// A survey ends as after Ctrl-C when its terminal is lost, and goes on when the reader of its output is. Neither leaves a
// node behind.
func TestProxyLosesItsTerminal(t *testing.T) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // the command goes on at a signal that this process ignores, as under nohup
	defer signal.Stop(hangups)
	for kind, wantReport := range map[string]bool{"hangup": false, "careful": true} {
		t.Run(kind, func(t *testing.T) {
			srv := rollcalltest.Start(t)
			report := filepath.Join(t.TempDir(), "report.json")
			reader, output, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = output.Close() }()
			printed := make(chan string, 1)
			if kind == "hangup" {
				go func() {
					text, _ := io.ReadAll(reader) // until the command has ended
					printed <- string(text)
				}()
			} else {
				_ = reader.Close()
				printed <- ""
			}
			cmd := exec.Command(os.Args[0], "-test.run=^TestProxyProcess$", "--", "proxy", "--faults=before", "--hosts="+srv.ConnectString(),
				"--json="+report, "--", os.Args[0], "-test.run=^TestSurveyedProgram$")
			cmd.Env = append(os.Environ(), proxyProcess+"=1", surveyedProgram+"="+kind)
			cmd.Stdout, cmd.Stderr = output, output
			err = cmd.Run()
			_ = output.Close()
			text := <-printed
			if err == nil { // without a reader, its table could not be printed
				t.Errorf("it ended with exit status 0:\n%s", text)
			}
			if !wantReport && !strings.Contains(text, "proxy: it was interrupted: ") {
				t.Errorf("%v; it printed %s", err, text)
			}
			if _, err := os.Stat(report); (err == nil) != wantReport {
				t.Errorf("the report: %v", err)
			}
			if left := nodesOf(t, srv); len(left) > 1 {
				t.Errorf("the nodes are %q", left)
			}
		})
	}
}

// nodesOf returns the nodes below the root of a server. One is ZooKeeper's own.
func nodesOf(t *testing.T, srv *rollcalltest.Server) []string {
	t.Helper()
	c, err := client.Dial(t.Context(), srv.ConnectString(), client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Abandon()
	names, _, err := c.Children(t.Context(), "/")
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// What another survey has left is named at the start, with the command line that removes it.
func TestProxyNamesLeftovers(t *testing.T) {
	srv := rollcalltest.Start(t)
	c, err := client.Dial(t.Context(), srv.ConnectString(), client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Abandon()
	const first, second = "/app/rollcall-proxy-a2aaaaaaaaaaaaaaaaaaaaaaaa", "/app/rollcall-proxy-bbbbbbbbbbbbbbbbbbbbbbbb7b"
	for _, path := range []string{second, first, "/app/rollcall-proxy-;true", "/app/other"} {
		if err := c.CreateAll(t.Context(), path, client.Persistent); err != nil {
			t.Fatal(err)
		}
	}
	_, errs, _ := surveyProgram(t, "", "--hosts", srv.ConnectString()+"/app") // it makes no request
	want := "other surveys have nodes on " + srv.ConnectString() + "/app: " + first + ", " + second + ". If no other survey runs, " +
		"remove each: rollcall rm -r --hosts=" + srv.ConnectString() + " " + first + "\n"
	if errs != want {
		t.Errorf("it printed %q, want %q", errs, want)
	}
}

// Flags with wrong values are errors that name the flag and what it takes.
func TestProxyFlags(t *testing.T) {
	for flags, want := range map[string]string{
		"--faults=sometimes":         `--faults: "sometimes" is no fault; there are before,`,
		"--repeat-at=7:after":        "--repeat-at: \"7\" names no request",
		"--limit=0":                  "--limit=0 must be at least 1",
		"--jobs=33":                  "--jobs=33 must be 1 to 32",
		"--time-limit=0s":            "--time-limit=0s must be positive",
		"--session-timeout=1ms":      "--session-timeout=1ms must be at least 400ms",
		"--whole-tree":               "--whole-tree needs --hosts",
		"--servers=127.0.0.1:999999": "--hosts: ",
	} {
		_, _, err := surveyProgram(t, "", flags)
		if err == nil || cli.StatusOf(err) != cli.UsageError || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", flags, err, want)
		}
	}
	if _, _, err := surveyProgram(t, "", "--faults=before"); err == nil || !strings.Contains(err.Error(), "succeeded without a request") {
		t.Errorf("a program without requests: %v", err)
	}
}
