package wire

import (
	"fmt"
	"io"
	"math"
)

// readHelloReply reads the answer to a hello.
func readHelloReply(r io.Reader) (code byte, rest []byte, err error) {
	b := make([]byte, 2, 2+math.MaxUint8+checksumSize)
	if _, err := io.ReadFull(r, b[:1]); err != nil {
		return 0, nil, fmt.Errorf("no answer: %w", err)
	}
	if _, err = io.ReadFull(r, b[1:]); err == nil {
		b = b[:2+int(b[1])+checksumSize]
		_, err = io.ReadFull(r, b[2:])
	}
	if err != nil {
		return 0, nil, fmt.Errorf("answer cut short: %w", err)
	}
	if err := verifyChecksum(b); err != nil {
		return 0, nil, err
	}
	return b[0], b[2 : len(b)-checksumSize], nil
}

// encodeHelloReply returns an answer to a hello.
func encodeHelloReply(code byte, rest []byte) []byte {
	return appendChecksum(append([]byte{code, byte(len(rest))}, rest...))
}
