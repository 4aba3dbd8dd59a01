package report

import (
	"io"
	"testing"

	"rollcall/lab/result"
)

func TestText(t *testing.T) {
	golden(t, "report.txt", written(t, plainText, sample()))
	golden(t, "repeated.txt", written(t, plainText, repeated(12)))
	golden(t, "few.txt", written(t, plainText, repeated(3)))
	coloured := func(w io.Writer, r result.Run) error { return WriteText(w, r, TextOptions{Colours: true}) }
	golden(t, "colours.txt", written(t, coloured, sample()))
}

func plainText(w io.Writer, r result.Run) error { return WriteText(w, r, TextOptions{}) }
