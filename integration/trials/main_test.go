package trials

import (
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"rollcall/lab/process"
)

// rollcall is the binary under test, built once per run.
var rollcall string

func TestMain(m *testing.M) { os.Exit(process.Main(m, &rollcall, build)) }

// build also lets more tests run in parallel than there are processors, because they mostly wait.
func build(dir string) (string, error) {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(2*slots)); err != nil {
		return "", err
	}
	return process.BuildHurried(filepath.Join("..", ".."), dir)
}
