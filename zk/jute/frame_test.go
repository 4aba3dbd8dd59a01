package jute

import (
	"bytes"
	"errors"
	"io"
	"math"
	"runtime"
	"testing"
	"testing/iotest"
)

func TestReadFrame(t *testing.T) {
	long := bytes.Repeat([]byte("0123456789abcdef"), DefaultMaxBuffer/16+1)[:DefaultMaxBuffer]
	framed := func(body []byte) []byte { return append(AppendInt32(nil, int32(len(body))), body...) }
	tests := []struct {
		name  string
		input []byte
		limit int
		want  []byte
		err   error
	}{
		{name: "empty", input: framed(nil), limit: 10, want: []byte{}},
		{name: "short", input: framed([]byte("abc")), limit: 10, want: []byte("abc")},
		{name: "at the limit", input: framed([]byte("abc")), limit: 3, want: []byte("abc")},
		{name: "a step and a byte", input: framed(long[:frameStep+1]), limit: DefaultMaxBuffer, want: long[:frameStep+1]},
		{name: "longest", input: framed(long), limit: DefaultMaxBuffer, want: long},
		{name: "above the limit", input: framed([]byte("abcd")), limit: 3, err: ErrFrameLength},
		{name: "greatest length", input: AppendInt32(nil, math.MaxInt32), limit: DefaultMaxBuffer, err: ErrFrameLength},
		{name: "negative", input: AppendInt32(nil, -1), limit: 10, err: ErrFrameLength},
		{name: "least length", input: AppendInt32(nil, math.MinInt32), limit: math.MaxInt32, err: ErrFrameLength},
		{name: "end before it", input: nil, limit: 10, err: io.EOF},
		{name: "end in the length", input: []byte{0, 0}, limit: 10, err: io.ErrUnexpectedEOF},
		{name: "end behind the length", input: []byte{0, 0, 0, 3}, limit: 10, err: io.ErrUnexpectedEOF},
		{name: "end in the body", input: []byte{0, 0, 0, 3, 'a'}, limit: 10, err: io.ErrUnexpectedEOF},
		{name: "end between two steps", input: framed(long)[:lengthSize+frameStep], limit: DefaultMaxBuffer, err: io.ErrUnexpectedEOF},
	}
	for _, tt := range tests {
		for _, size := range []int{0, 3, 4, 100, frameStep, DefaultMaxBuffer} {
			r := bytes.NewReader(append(bytes.Clone(tt.input), "next"...))
			if errors.Is(tt.err, io.EOF) || errors.Is(tt.err, io.ErrUnexpectedEOF) {
				r.Reset(tt.input)
			}
			got, err := ReadFrame(r, make([]byte, size), tt.limit)
			if !bytes.Equal(got, tt.want) || (got == nil) != (tt.want == nil) || !errors.Is(err, tt.err) {
				t.Errorf("%s, buffer of %d: ReadFrame() = %d bytes, %v, want %d bytes, %v", tt.name, size, len(got), err, len(tt.want), tt.err)
			}
			if err == nil && r.Len() != len("next") {
				t.Errorf("%s, buffer of %d: %d bytes left after the frame, want %d", tt.name, size, r.Len(), len("next"))
			}
		}
	}
}

func TestReadFrameReusesItsBuffer(t *testing.T) {
	buf := make([]byte, 0, 16)
	input := append(AppendInt32(nil, 16), "0123456789abcdef"...)
	r := bytes.NewReader(input)
	allocs := testing.AllocsPerRun(100, func() {
		r.Reset(input)
		got, err := ReadFrame(r, buf, 16)
		if err != nil || &got[0] != &buf[:1][0] {
			t.Fatalf("ReadFrame() = %q, %v, in the buffer: %t", got, err, err == nil)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations, want none", allocs)
	}
}

// ReadFrame returns the reader's own error.
func TestReadFrameReaderError(t *testing.T) {
	broken := errors.New("broken")
	for n := range 8 {
		r := io.MultiReader(bytes.NewReader([]byte{0, 0, 0, 8, 1, 2, 3, 4}[:n]), iotest.ErrReader(broken))
		if _, err := ReadFrame(r, nil, 100); !errors.Is(err, broken) {
			t.Errorf("after %d bytes: %v, want %v", n, err, broken)
		}
	}
}

// The length of a frame is only a claim. ReadFrame allocates memory as the bytes arrive, not
// before.
func TestReadFrameAllocatesWhatArrives(t *testing.T) {
	for _, arrives := range []int{0, 1, frameStep - 1, frameStep, frameStep + 1, 100_000, 1 << 20} {
		input := append(AppendInt32(nil, 1<<30), make([]byte, arrives)...)
		got := uint64(math.MaxUint64)
		for range 5 { // the least counts: the runtime allocates now and then, too
			r := bytes.NewReader(input)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := ReadFrame(r, nil, math.MaxInt32)
			runtime.ReadMemStats(&after)
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("%d bytes: %v, want %v", arrives, err, io.ErrUnexpectedEOF)
			}
			got = min(got, after.TotalAlloc-before.TotalAlloc)
		}
		// Each step doubles the last, so all of them together are less than four times the bytes.
		if limit := uint64(4*arrives + 2*frameStep); got > limit {
			t.Errorf("%d of 2^30 bytes arrived: allocated %d bytes, want at most %d", arrives, got, limit)
		}
	}
}

func TestWriteFrame(t *testing.T) {
	for _, body := range [][]byte{nil, {}, []byte("abc")} {
		var out writes
		if err := WriteFrame(&out, body); err != nil {
			t.Fatal(err)
		}
		if want := append(AppendInt32(nil, int32(len(body))), body...); len(out) != 1 || !bytes.Equal(out[0], want) {
			t.Errorf("WriteFrame(%q) wrote %x, want %x in one call", body, [][]byte(out), want)
		}
	}
	broken := errors.New("broken")
	if err := WriteFrame(brokenWriter{broken}, []byte("abc")); !errors.Is(err, broken) {
		t.Errorf("WriteFrame to a broken writer: %v, want %v", err, broken)
	}
}

// Frames may follow one another in one slice.
func TestFramesInOneSlice(t *testing.T) {
	var b []byte
	for _, xid := range []int32{1, 2} {
		var mark int
		b, mark = BeginFrame(b)
		b = EndFrame(RequestHeader{xid, OpPing}.Append(b), mark)
	}
	r := bytes.NewReader(b)
	for _, xid := range []int32{1, 2} {
		frame, err := ReadFrame(r, nil, 8)
		var h RequestHeader
		if err != nil || decode(&h, frame) != nil || h.Xid != xid {
			t.Errorf("frame %d: %x, %v", xid, frame, err)
		}
	}
}

// writes is a writer that keeps each write separately.
type writes [][]byte

func (w *writes) Write(p []byte) (int, error) {
	*w = append(*w, bytes.Clone(p))
	return len(p), nil
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

// Whatever the bytes are, and in whatever pieces they arrive, ReadFrame returns the frame at their
// start or an error. It reads no byte after the frame.
func FuzzReadFrame(f *testing.F) {
	f.Add([]byte{0, 0, 0, 2, 'a', 'b', 'c'}, uint16(0), uint32(10))
	f.Add([]byte{0, 0, 0, 9, 'a'}, uint16(8), uint32(10))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, uint16(8), uint32(10))
	f.Add(append([]byte{0, 0, 0x20, 1}, make([]byte, 0x2001)...), uint16(100), uint32(DefaultMaxBuffer))
	f.Fuzz(func(t *testing.T, input []byte, size uint16, limit uint32) {
		max := int(limit & math.MaxInt32)
		var want []byte
		var wantErr error
		switch d := NewDecoder(input); {
		case len(input) == 0:
			wantErr = io.EOF
		case len(input) < lengthSize:
			wantErr = io.ErrUnexpectedEOF
		default:
			switch n := int(d.ReadInt32()); {
			case n < 0 || n > max:
				wantErr = ErrFrameLength
			case n > len(d.Rest()):
				wantErr = io.ErrUnexpectedEOF
			default:
				want = d.Rest()[:n]
			}
		}
		for _, slow := range []bool{false, true} {
			left := bytes.NewReader(input)
			var r io.Reader = left
			if slow {
				r = iotest.OneByteReader(left)
			}
			got, err := ReadFrame(r, make([]byte, size), max)
			if !bytes.Equal(got, want) || !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) {
				t.Fatalf("ReadFrame() = %x, %v, want %x, %v", got, err, want, wantErr)
			}
			if err == nil && left.Len() != len(input)-lengthSize-len(want) {
				t.Fatalf("%d of %d bytes left after a frame of %d", left.Len(), len(input), len(want))
			}
		}
	})
}
