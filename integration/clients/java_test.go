package clients

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"

	"rollcall/integration/needs"
)

// javaPath names Debian's Curator, whose manifest names the rest.
const javaPath = "/usr/share/java/curator-recipes.jar:/usr/share/java/slf4j-simple.jar"

// compileJava compiles the programs in java/ and returns their class path.
func compileJava(t *testing.T) string {
	t.Helper()
	needs.Check(t, needs.Curator)
	sources, err := filepath.Glob("java/*.java")
	if err != nil || len(sources) == 0 {
		t.Fatalf("java/*.java: %v, %v", sources, err)
	}
	dir := t.TempDir()
	out, err := exec.Command("javac", append([]string{"-nowarn", "-d", dir, "-cp", javaPath}, sources...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("javac (package default-jdk-headless): %v\n%s", err, out)
	}
	return dir + ":" + javaPath
}

// java returns a command for a virtual machine that starts fast and stays small.
func java(classPath, program string, args ...string) *exec.Cmd {
	flags := []string{
		"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m", "-Xshare:auto",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", classPath, program,
	}
	return exec.Command("java", append(flags, args...)...)
}

// Scenarios of Curator's recipes, each a function of java/CuratorClient.java.
func TestCurator(t *testing.T) {
	needs.Check(t, needs.Usual)
	classPath := compileJava(t)
	for _, name := range []string{"latch", "mutex", "semaphore", "persistent-node", "cache", "group", "transaction"} {
		t.Run(name, func(t *testing.T) {
			play(t, "curator-"+name, nil, func(ctx context.Context, s *stage, at seat) error {
				return s.follow(ctx, "curator "+at.name, java(classPath, "CuratorClient", s.argumentsOf(at, name)...))
			})
		})
	}
}
