package main

import (
	"os"
	"path/filepath"
	"testing"
)

// The files in docs/pictures are the ones that this program draws. The only others are the console's, which
// integration/console takes.
func TestPicturesAreDrawn(t *testing.T) {
	const directory = "../../docs/pictures"
	for name, want := range pictures() {
		got, err := os.ReadFile(filepath.Join(directory, name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("docs/pictures/%s is not what the program draws: run go run ./tools/pictures docs/pictures", name)
		}
	}
	files, err := os.ReadDir(directory)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if pictures()[f.Name()] == "" && filepath.Ext(f.Name()) != ".png" {
			t.Errorf("nothing draws docs/pictures/%s", f.Name())
		}
	}
}
