package rollcall_test

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// checkout is a directory with copies of CI's scripts and stand-ins for the programs that they
// start.
type checkout struct {
	t   *testing.T
	dir string
}

// newCheckout copies the scripts. Each of programs is the body of a shell script that stands in
// for the program of that name.
func newCheckout(t *testing.T, programs map[string]string) *checkout {
	t.Helper()
	c := &checkout{t, t.TempDir()}
	for _, path := range []string{".ci/run", "ci/suite.sh", "ci/test.sh", "ci/fuzz.sh", "ci/stamp.sh", "ci/deps.sh"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		c.write(path, string(text))
	}
	for name, body := range programs {
		c.write("bin/"+name, "#!/usr/bin/env bash\n"+body)
	}
	return c
}

func (c *checkout) write(path, text string) {
	c.t.Helper()
	path = filepath.Join(c.dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		c.t.Fatal(err)
	}
}

// run returns the output of a script, and whether it succeeded. env is added to this process's
// environment.
func (c *checkout) run(env []string, args ...string) (out string, ok bool) {
	c.t.Helper()
	cmd := exec.Command("bash", args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(c.dir, "bin")+":"+os.Getenv("PATH"), "CI_LIMITED=")
	cmd.Env = append(cmd.Env, env...)
	text, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	return string(text), err == nil
}

// everySuite stands in for make: each goal prints that its suites have run.
const everySuite = `
case $1 in
  test) for s in unit cases clients few-kills schedules; do echo "suite $s: 1 s"; done ;;
  proof) for s in served-race recipes-real more-clients kills wipes breaks moves trials power console deploy packages differential builds model race-schedules ensembles changes recipes lint some-fuzz chart hostile; do echo "suite $s: 1 s"; done ;;
esac
`

// A package goes on only if the race detector ended itself in it and nothing else failed. It goes on with the tests that
// have not passed.
func TestRaceDetectorGivesUp(t *testing.T) {
	const (
		testA  = `echo "--- PASS: TestA (0.00s)";`
		ended  = `echo "ok  	rollcall/$1	0.1s"`
		passed = testA + ended
		gaveUp = `echo "ThreadSanitizer: CHECK failed: x.cpp:1"; echo "FAIL	rollcall/$1	0.1s"`
		place  = `echo "PC=0x41cb49 m=4 sigcode=1 addr=0x0"; echo "FAIL	rollcall/$1	0.1s"`
		signal = `echo "SIGSEGV: segmentation violation";` + place
		ofGo   = `echo "[signal SIGSEGV: segmentation violation code=0x1]";` + place
		failed = `echo "--- FAIL: TestA (0.00s)"; echo "FAIL"; echo "FAIL	rollcall/$1	0.1s"`
	)
	for _, tt := range []struct {
		name, first, second, later string // the output of package b in its first, second and third run
		runs                       string // the packages of each run of go test
		ok                         bool
	}{
		{"all pass", passed, "", "", "a b,", true},
		{"once", gaveUp, passed, "", "a b,b,", true},
		{"by a signal", signal, passed, "", "a b,b,", true},
		{"by a signal in Go's code", ofGo, passed, "", "a b,", false},
		{"twice", gaveUp, gaveUp, passed, "a b,b,b,", true},
		{"after its test", testA + gaveUp, `[[ $args == *" -skip ^(TestA)$|"* ]] && ` + ended, "", "a b,b,", true},
		{"for ever", gaveUp, gaveUp, gaveUp, "a b,b,b,b,b,b,b,", false},
		{"a failed test", failed, passed, "", "a b,", false},
		{"a failed test, too", `echo "--- FAIL: TestA (0.00s)";` + gaveUp, passed, "", "a b,", false},
		{"a race, too", `echo "WARNING: DATA RACE";` + gaveUp, passed, "", "a b,", false},
		{"a panic", `echo "panic: x";` + gaveUp, passed, "", "a b,", false},
		{"a failed test afterwards", gaveUp, failed, "", "a b,b,", false},
		{"a skipped test", gaveUp, `echo "--- SKIP: TestA (0.00s)";` + ended, "", "a b,b,", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCheckout(t, map[string]string{"go": `
[ "$1" != list ] || { echo rollcall/a; echo rollcall/b; exit; }
[ "$1" = test ] || exit 0
args=$*
passed() { ` + passed + `; }
first() { ` + tt.first + `; }
second() { ` + cmp.Or(tt.second, ":") + `; }
third() { ` + cmp.Or(tt.later, ":") + `; }
echo "$*" | grep -oE 'rollcall/.*' | sed 's,rollcall/,,g' | tr '\n' , >>runs
case $* in *rollcall/a*) passed a ;; esac
echo . >>tries
case $(wc -l <tries) in 1) out=$(first b) ;; 2) out=$(second b) ;; *) out=$(third b) ;; esac
echo "$out"
case $out in *FAIL*) exit 1 ;; esac
`})
			out, ok := c.run(nil, "-c", `source ci/suite.sh; source <(sed '/^\[ \$# -gt 0/,$d' ci/test.sh | sed 's,^cd .*,,'); raced rollcall/a rollcall/b`)
			runs, _ := os.ReadFile(filepath.Join(c.dir, "runs"))
			if ok != tt.ok || string(runs) != tt.runs {
				t.Errorf("success %v after the runs %s, want %v after %s:\n%s", ok, runs, tt.ok, tt.runs, out)
			}
		})
	}
}

// The environment in which CI is started cannot make a suite shorter or leave one out.
func TestCIIgnoresTheEnvironment(t *testing.T) {
	c := newCheckout(t, map[string]string{
		"make": everySuite + `echo "environment: $(env | grep -E '^(ROLLCALL_|TIMEOUT|FUZZTIME)' | tr '\n' ' ')."`,
		"go":   "",
	})
	out, ok := c.run([]string{"ROLLCALL_SCHEDULES=1", "ROLLCALL_NO_DOCKER=1", "TIMEOUT=1s", "FUZZTIME=1x"}, ".ci/run")
	if !ok || strings.Count(out, "environment: .\n") != 2 {
		t.Errorf("succeeds %t, want true; make must run twice and see none of the variables:\n%s", ok, out)
	}
}

// If a suite did not run or was left out, the table says so, and CI fails. CI also fails if make
// fails.
func TestCIShowsWhatWasLeftOut(t *testing.T) {
	for _, tt := range []struct{ name, make, row string }{
		{"not run", strings.Replace(everySuite, " kills ", " ", 1), "\nkills        LEFT OUT"},
		{"left out", everySuite + `[ "$1" != proof ] || echo "suite deploy: LEFT OUT"`, "deploy       LEFT OUT"},
		{"failed", everySuite + `[ "$1" != test ]`, "make test    FAILED after "},
		{"failed in the rest", everySuite + `[ "$1" != proof ]`, "make proof   FAILED after "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, ok := newCheckout(t, map[string]string{"make": tt.make, "go": ""}).run(nil, ".ci/run")
			if ok || !strings.Contains(out, tt.row) {
				t.Errorf("succeeds %t, want false and the row %q:\n%s", ok, tt.row, out)
			}
		})
	}
}

// If CI hangs, it is ended after at most 55 minutes, and it still prints the table.
func TestCIEndsAtItsLimit(t *testing.T) {
	c := newCheckout(t, map[string]string{
		"make": strings.Replace(everySuite, " hostile;", ";", 1) + `[ "$1" != proof ] || { touch stuck; sleep 60; }`,
		"go":   "",
		// The real timeout signals the process first, and then its whole group.
		"timeout": `echo "limit $3"; setsid "${@:4}" & until [ -e stuck ]; do sleep 0.01; done; kill $!; for i in {1..9}; do kill -- -$!; sleep 0.01; done; wait $!; exit 124`,
	})
	out, ok := c.run(nil, ".ci/run")
	limit := regexp.MustCompile(`^limit (\d+)\n`).FindStringSubmatch(out)
	if limit == nil {
		t.Fatalf("CI runs without a limit:\n%s", out)
	}
	if seconds, err := strconv.Atoi(limit[1]); err != nil || seconds > 55*60-20 {
		t.Errorf("ended after %s s, want at most 55 minutes, less the 20 s in which it must end", limit[1])
	}
	if ok || !strings.Contains(out, "hostile      LEFT OUT\n") || !regexp.MustCompile(`\nmake test +\d+ s\n`).MatchString(out) || !strings.Contains(out, "s of at most "+limit[1]) {
		t.Errorf("succeeds %t, want false and the table:\n%s", ok, out)
	}
}

// CI's table has the suites of make test and of make proof, and no others.
func TestCIKnowsEverySuite(t *testing.T) {
	run, err := os.ReadFile(".ci/run")
	if err != nil {
		t.Fatal(err)
	}
	test, err := os.ReadFile("ci/test.sh")
	if err != nil {
		t.Fatal(err)
	}
	table := regexp.MustCompile(`(?s)\nsuites=\((.*?)\)\n`).FindSubmatch(run)
	lists := regexp.MustCompile(`\n    background=\((.*)\) begins=(.*)\n    set -- (.*)\n`).FindAllStringSubmatch(string(test), -1)
	if table == nil || len(lists) != 2 {
		t.Fatal("the lists of suites were not found in .ci/run and ci/test.sh")
	}
	var want []string
	for i, goal := range []string{"test", "proof"} {
		suites := strings.Fields(strings.Replace(lists[i][3], `"${background[@]}"`, lists[i][1], 1))
		if !slices.Contains(suites, lists[i][2]) {
			t.Errorf("make %s begins those in the background with the suite %s, which it does not run", goal, lists[i][2])
		}
		for _, suite := range suites {
			if !regexp.MustCompile(`(?m)^` + suite + `\(\)`).Match(test) {
				t.Errorf("ci/test.sh has no suite %s", suite)
			}
		}
		want = slices.Concat(want, suites, []string{`"make`, goal + `"`})
	}
	if got := strings.Fields(string(table[1])); !slices.Equal(got, want) {
		t.Errorf("the table of .ci/run has %q, and ci/test.sh runs %q", got, want)
	}
}

// A suite fails if a test was skipped or a package ran none. Packages without tests and skipped subtests are no failure.
func TestNoTestIsLost(t *testing.T) {
	const ran = "--- PASS: TestOne (0.00s)\n    --- SKIP: TestOne/x\nok  \trollcall/a\t0.1s\n?   \trollcall/d\t[no test files]\n"
	for _, tt := range []struct{ name, printed, want string }{
		{"all ran", ran, ""},
		{"a skipped test", ran + "--- SKIP: TestTwo (0.00s)\n", "must run: --- SKIP: TestTwo"},
		{"a skipped benchmark", ran + "--- SKIP: BenchmarkX\n", "must run: --- SKIP: BenchmarkX"},
		{"none", ran + "ok  \trollcall/b\t0.1s [no tests to run]\n", "must run: ok  \trollcall/b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCheckout(t, nil)
			c.write("printed", tt.printed)
			out, ok := c.run(nil, "-c", ". ci/suite.sh; whole printed")
			if ok != (tt.want == "") || tt.want == "" && out != "" || !strings.Contains(out, tt.want) {
				t.Errorf("succeeds %t and prints %q, want %q", ok, out, tt.want)
			}
		})
	}
}

// The clients must run every scenario that ci/client-scenarios names, and no other.
func TestClientScenariosByName(t *testing.T) {
	for _, tt := range []struct{ name, kept, want string }{
		{"all", "clients one\nclients two a\nmore-clients three\n", ""},
		{"one lost, another instead", "clients one\nclients three\n", "client scenario three: did not run"},
		{"a new one", "clients one\n", "client scenario two a: not in ci/client-scenarios"},
		{"one of another suite", "clients one\nmore-clients two a\n", "client scenario two a: not in ci/client-scenarios"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCheckout(t, map[string]string{"go": `printf '    client scenario: two a ok\nclient scenario: one ok\n--- PASS: TestX (0s)\nok  \trollcall/c\t1s\n'`})
			c.write("ci/client-scenarios", tt.kept)
			out, ok := c.run(nil, "ci/test.sh", "clients")
			if ok != (tt.want == "") || !strings.Contains(out, tt.want) {
				t.Errorf("succeeds %t, want %q:\n%s", ok, tt.want, out)
			}
		})
	}
}

// If the environment leaves a suite out, the output says so. Without a container engine the tests of
// package deploy that need none still run: the two suites share its tests, and no test is in both.
func TestSuiteLeftOut(t *testing.T) {
	c := newCheckout(t, map[string]string{"go": `echo "go $*"; printf -- '--- PASS: TestX (0s)\nok  \trollcall/d\t1s\n'`})
	out, ok := c.run([]string{"ROLLCALL_NO_DOCKER=1"}, "ci/test.sh", "packages", "deploy")
	if !ok || !strings.Contains(out, "suite deploy: LEFT OUT\n") || !regexp.MustCompile(`suite packages: \d+ s\n`).MatchString(out) || strings.Count(out, "go test") != 1 {
		t.Errorf("succeeds %t, want true, packages run and deploy left out:\n%s", ok, out)
	}
	all, ok := c.run([]string{"ROLLCALL_NO_DOCKER="}, "ci/test.sh", "packages", "deploy")
	ran := regexp.MustCompile(`go test .*-run (\S+) \./integration/deploy\n`).FindStringSubmatch(all)
	skipped := regexp.MustCompile(`go test .*-skip (\S+) \./integration/deploy\n`).FindStringSubmatch(all)
	if !ok || ran == nil || skipped == nil || ran[1] != skipped[1] {
		t.Errorf("succeeds %t, want deploy to run %v, which packages skips (%v):\n%s", ok, ran, skipped, all)
	}
}

// If a package is missing and cannot be installed, ci/deps.sh fails and says what to do. make test
// needs fewer packages than make proof.
func TestMissingPackages(t *testing.T) {
	const there = `echo installed`
	for _, tt := range []struct {
		name, packages, arg string
		want                string // "": it succeeds
	}{
		{"all there", there, "proof", ""},
		{"one for both", `[ $4 = zookeeper ] || ` + there, "", "install -y --no-install-recommends zookeeper\n"},
		{"one for proof, at make test", `[ $4 = libcurator-recipes-java ] || ` + there, "", ""},
		{"one for proof", `[ $4 = libcurator-recipes-java ] || ` + there, "proof", "libcurator-recipes-java\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCheckout(t, map[string]string{"dpkg-query": tt.packages, "id": "echo 1000", "javac": "", "docker": "", "gcc": "", "chromium": ""})
			out, ok := c.run(nil, "ci/deps.sh", tt.arg)
			if ok != (tt.want == "") || !strings.Contains(out, tt.want) {
				t.Errorf("succeeds %t, want %q:\n%s", ok, tt.want, out)
			}
		})
	}
}

// make test runs the unit tests with -short, and make proof runs them in full: those of packages that start goroutines or
// have locks under the race detector, and the others without it.
func TestUnitTestsRunInFull(t *testing.T) {
	c := newCheckout(t, map[string]string{"go": `
case "$1 $2" in
  "list -f") for package in a b c; do echo rollcall/$package $package; done ;;
  list*) for package in a b c; do echo rollcall/$package; done ;;
  test*)
    echo "$*" >>runs
    for package in a b c; do case "$*" in *rollcall/$package*) printf -- '--- PASS: TestA (0s)\nok \trollcall/%s\t1s\n' $package ;; esac; done ;;
esac
`})
	c.write("a/a.go", "package a\n\nfunc A() {\n\tgo A()\n}\n")
	c.write("b/b.go", "package b\n")
	c.write("b/b_test.go", "package b\n\nimport \"sync\"\n")
	c.write("c/c.go", "package c\n\nimport (\n\t\"sync\"\n)\n")
	if out, ok := c.run(nil, "ci/test.sh", "unit", "race"); !ok {
		t.Fatal(out)
	}
	text, err := os.ReadFile(filepath.Join(c.dir, "runs"))
	if err != nil {
		t.Fatal(err)
	}
	var runs []string
	for run := range strings.Lines(string(text)) {
		kind := "full"
		switch {
		case strings.Contains(run, " -short "):
			kind = "short"
		case strings.Contains(run, " -race "):
			kind = "race"
		}
		runs = append(runs, kind+strings.TrimRight(run[strings.Index(run, " rollcall/"):], "\n"))
	}
	if want := []string{"short rollcall/a rollcall/b rollcall/c", "race rollcall/a rollcall/c", "full rollcall/b"}; !slices.Equal(runs[:min(3, len(runs))], want) {
		t.Errorf("runs %q, want %q", runs, want)
	}
}

// A suite beside others ends with its own status, and its output is printed when it is joined. So it is if it ends early, late, or
// by a signal, and if it never ran.
func TestSuitesBeside(t *testing.T) {
	for _, tt := range []struct {
		name, lint, fuzz string
		want             string
	}{
		{"both run", "echo linted", "sleep 0.2; echo fuzzed", "first\nlinted\nlint 0\nfuzzed\nfuzz 0\n"},
		{"one fails", "echo bad; exit 3", "echo fuzzed", "first\nbad\nlint 1\nfuzzed\nfuzz 0\n"},
		{"one is killed", "kill -9 $PPID", "echo fuzzed", "first\nlint 137\nfuzzed\nfuzz 0\n"},
		{"all are killed", "kill -9 $(cat beside)", "echo fuzzed", "first\nlint 1\nfuzz 1\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCheckout(t, map[string]string{"go": "exit 1"})
			c.write("ci/lint.sh", "#!/usr/bin/env bash\nuntil [ -e beside ]; do sleep 0.01; done\n"+tt.lint+"\n")
			c.write("ci/fuzz.sh", "#!/usr/bin/env bash\n"+tt.fuzz+"\n")
			out, _ := c.run(nil, "-c", `source ci/suite.sh; source <(sed '/^\[ \$# -gt 0/,$d' ci/test.sh | sed 's,^cd .*,,'); beside lint fuzz
echo $runs_beside >beside.new; mv beside.new beside
echo first
for name in lint fuzz; do status=0; joined $name || status=$?; echo $name $status; done`)
			own := regexp.MustCompile(`(?m)^(first|linted|fuzzed|bad|(lint|fuzz) \d+)\n`) // bash names what is killed
			if strings.Join(own.FindAllString(out, -1), "") != tt.want {
				t.Errorf("printed:\n%swant:\n%s", out, tt.want)
			}
		})
	}
}

// ci/fuzz.sh fails if a fuzz target of the tree did not run, if one of them fails, or if they are
// given no time.
func TestFuzzScript(t *testing.T) {
	const program = `case " $* " in *" -list "*) printf 'FuzzA\nFuzzB\nok \trollcall/f\t0s\n' ;; *FuzzB*) exit ${B:-0} ;; esac`
	const two = "func FuzzA(f *testing.F) {}\nfunc FuzzB(f *testing.F) {}\n"
	for _, tt := range []struct {
		name, tests string
		env         []string
		want        string // "": it succeeds
	}{
		{"all", two, nil, ""},
		{"fewer", two + "func FuzzC(f *testing.F) {}\n", nil, "the tree has 3 fuzz targets"},
		{"one fails", two, []string{"B=1"}, "failed: 1"},
		{"no time", two, []string{"FUZZTIME=0s"}, "FUZZTIME=0s: want a time or a count above 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCheckout(t, map[string]string{"go": program})
			c.write("f/f_test.go", tt.tests)
			out, ok := c.run(append([]string{"FUZZTIME=1s"}, tt.env...), "ci/fuzz.sh")
			if ok != (tt.want == "") || !strings.Contains(out, tt.want) {
				t.Errorf("succeeds %t, want %q:\n%s", ok, tt.want, out)
			}
		})
	}
}

// The stamp is the last commit with its date, and says whether files were changed. It does not
// depend on the owner of the checkout. Outside of a checkout there is no stamp.
func TestStamp(t *testing.T) {
	c := newCheckout(t, nil)
	stamp := func(env ...string) string {
		out, ok := c.run(append(env, "GIT_CEILING_DIRECTORIES="+filepath.Dir(c.dir)), "ci/stamp.sh")
		if !ok {
			t.Errorf("stamp.sh fails: %s", out)
		}
		return out
	}
	if out := stamp(); out != "" {
		t.Errorf("%q outside of a checkout, want nothing", out)
	}
	c.write("file", "one")
	out, ok := c.run([]string{"GIT_COMMITTER_DATE=2026-11-20T23:38:42+01:00"}, "-c",
		"git init -q && git add . && git -c user.name=a -c user.email=a@b commit -qm one && git rev-parse HEAD")
	if !ok {
		t.Fatal(out)
	}
	id := strings.TrimSpace(out)
	if got, want := stamp(), "-X main.stamp="+id+",2026-11-20T23:38:42+01:00\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := stamp("GIT_TEST_ASSUME_DIFFERENT_OWNER=1"); !strings.Contains(got, id) {
		t.Errorf("%q in a checkout of another user, want the commit", got)
	}
	c.write("file", "two")
	if got, want := stamp(), "-X main.stamp="+id+"-modified,2026-11-20T23:38:42+01:00\n"; got != want {
		t.Errorf("%q with changes, want %q", got, want)
	}
}

// Seeds follow from the content of the tree alone: a copy without git has the same, and each change has others.
func TestSeedsFollowFromTheContent(t *testing.T) {
	drawn := func(c *checkout) string {
		t.Helper()
		out, ok := c.run([]string{"GIT_DIR=/none"}, "-c", `source <(sed '/^\[ \$# -gt 0/,$d' ci/test.sh | sed 's,^cd .*,,'); echo "number $(drawn)"`)
		if !ok {
			t.Errorf("it fails: %s", out)
		}
		return out[strings.Index(out, "number "):]
	}
	c := newCheckout(t, nil)
	first := drawn(c)
	if got := drawn(newCheckout(t, nil)); got != first {
		t.Errorf("%q for a copy, want %q", got, first)
	}
	c.write(".git/index", "x")
	if got := drawn(c); got != first {
		t.Errorf("%q with another hidden file, want %q", got, first)
	}
	c.write("docs/page.md", "one")
	second := drawn(c)
	c.write("docs/page.md", "two")
	if third := drawn(c); second == first || third == second {
		t.Errorf("%q, %q and %q for three contents", first, second, third)
	}
}
