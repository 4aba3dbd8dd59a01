package wire

import (
	"fmt"
	"io"
	"math"
)

func readHelloReply(r io.Reader) (code byte, rest []byte, err error) {
	b := make([]byte, 2, 2+math.MaxUint8+checksumSize)
	if _, err := io.ReadFull(r, b[:1]); err != nil {
		return 0, nil, fmt.Errorf("no reply: %w", err)
	}
	if _, err = io.ReadFull(r, b[1:]); err == nil {
		b = b[:2+int(b[1])+checksumSize]
		_, err = io.ReadFull(r, b[2:])
	}
	if err != nil {
		return 0, nil, fmt.Errorf("reply cut short: %w", err)
	}
	if err := verifyChecksum(b); err != nil {
		return 0, nil, err
	}
	return b[0], b[2 : len(b)-checksumSize], nil
}

func encodeHelloReply(code byte, rest []byte) []byte {
	return appendChecksum(append([]byte{code, byte(len(rest))}, rest...))
}
