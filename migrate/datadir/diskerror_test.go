package datadir

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

// A disk that cannot be read is no end of a log: the transactions after that place would be lost. The error names the file and
// what the disk has said.
func TestUnreadableLog(t *testing.T) {
	logs, err := filepath.Glob(filepath.Join("testdata", golden[0], versionDirName, "log.*"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	text, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 4*windowSize {
		text = text[:4*windowSize]
	}
	for at := headSize; at < len(text); at += 97 {
		disk := io.MultiReader(bytes.NewReader(text[:at]), iotest.ErrReader(errors.New("input/output error")))
		r := &logReader{valueReader: newValueReader(disk, int64(len(text))), path: logs[0]}
		err := readHead(r.valueReader, logMagic)
		for record := new(record); err == nil && record != nil; {
			record, err = r.nextRecord()
		}
		var damage *Damage
		zeros := err == nil && bytes.Count(text[at:], []byte{0}) == len(text)-at // what follows the last record is not looked at here
		if !zeros && (!errors.As(err, &damage) || damage.File != logs[0] || !strings.Contains(err.Error(), "input/output error")) {
			t.Fatalf("if byte %d cannot be read: %v", at, err)
		}
	}
}
