package jute

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// DefaultMaxBuffer is the longest frame that a server accepts by default (jute.maxbuffer), in bytes
// without the length.
const DefaultMaxBuffer = 1048575

// ErrFrameLength means that a frame's length is negative or above the limit.
var ErrFrameLength = errors.New("jute: impossible frame length")

const (
	lengthSize = 4    // bytes of the length before a frame
	frameStep  = 4096 // allocated by ReadFrame before any bytes have arrived; most frames fit
)

// BeginFrame appends room for a frame's length. It returns the longer slice and the mark to pass to
// EndFrame.
func BeginFrame(b []byte) (grown []byte, mark int) { return append(b, 0, 0, 0, 0), len(b) }

// EndFrame fills in the length of the frame begun at mark, which ends where b ends. It returns b.
func EndFrame(b []byte, mark int) []byte {
	binary.BigEndian.PutUint32(b[mark:], uint32(len(b)-mark-lengthSize))
	return b
}

// ReadFrame reads one frame of at most limit bytes and returns it without its length. It uses buf's
// memory if that is large enough. Otherwise it allocates in steps as the bytes arrive, so that a
// length alone costs no memory. It blocks as r does.
//
// The error is io.EOF if r ends before the frame, and io.ErrUnexpectedEOF if r ends within it. It
// wraps ErrFrameLength for a length that is negative or above limit. Otherwise it is an error of r.
func ReadFrame(r io.Reader, buf []byte, limit int) ([]byte, error) {
	if cap(buf) < lengthSize {
		buf = make([]byte, lengthSize)
	}
	if _, err := io.ReadFull(r, buf[:lengthSize]); err != nil {
		return nil, err
	}
	n := int(int32(binary.BigEndian.Uint32(buf[:lengthSize])))
	if n < 0 || n > limit {
		return nil, fmt.Errorf("%w: %d bytes, limit %d", ErrFrameLength, n, limit)
	}
	buf = buf[:0]
	for len(buf) < n {
		if len(buf) == cap(buf) || len(buf) == 0 && cap(buf) < min(n, frameStep) {
			grown := make([]byte, len(buf), min(n, max(2*len(buf), frameStep)))
			copy(grown, buf)
			buf = grown
		}
		have := len(buf)
		buf = buf[:min(n, cap(buf))]
		if _, err := io.ReadFull(r, buf[have:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return buf, nil
}

// WriteFrame writes body as one frame, in one call of w.Write. It allocates a copy. Where that
// matters, use BeginFrame and EndFrame to build the frame in place.
func WriteFrame(w io.Writer, body []byte) error {
	if len(body) > math.MaxInt32 {
		return fmt.Errorf("%w: %d bytes", ErrFrameLength, len(body))
	}
	frame := AppendInt32(make([]byte, 0, lengthSize+len(body)), int32(len(body)))
	_, err := w.Write(append(frame, body...))
	return err
}
