package kerberos

import (
	"bytes"
	"encoding/binary"
)

// mechanism is the object identifier of Kerberos 5, 1.2.840.113554.1.2.2, in DER.
const mechanism = "\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"

// The first two bytes of a token after its frame.
const (
	tokenAPReq = 0x0100
	tokenAPRep = 0x0200
	tokenError = 0x0300
	tokenWrap  = 0x0504 // has no frame
)

// frameTag is the first byte of a framed token.
const frameTag = 0x60

// appendFramed appends a message in the frame of RFC 2743, section 3.1.
func appendFramed(b []byte, id uint16, message []byte) []byte {
	b = append(b, frameTag)
	switch size := len(mechanism) + 2 + len(message); {
	case size < 0x80:
		b = append(b, byte(size))
	case size <= 0xff:
		b = append(b, 0x81, byte(size))
	default: // at most MaxToken
		b = binary.BigEndian.AppendUint16(append(b, 0x82), uint16(size))
	}
	b = append(b, mechanism...)
	return append(binary.BigEndian.AppendUint16(b, id), message...)
}

// cutFrame returns the message of a framed token, which must have this id. The message shares the token's memory.
func cutFrame(token []byte, id uint16) (message []byte, err error) {
	body, ok := cutLength(token)
	if !ok {
		return nil, faultf(BadToken, "the token of %d bytes has no frame of GSSAPI", len(token))
	}
	body, ok = bytes.CutPrefix(body, []byte(mechanism))
	if !ok || len(body) < 2 {
		return nil, faultf(BadToken, "the token is not of the mechanism Kerberos 5")
	}
	if got := binary.BigEndian.Uint16(body); got != id {
		return nil, faultf(BadToken, "the token has the type %#04x; must be %#04x", got, id)
	}
	return body[2:], nil
}

// cutLength returns what is behind the tag and the length of a framed token, if the length is that of the rest.
func cutLength(token []byte) (body []byte, ok bool) {
	if len(token) < 2 || token[0] != frameTag {
		return nil, false
	}
	length, body := int(token[1]), token[2:]
	if length >= 0x80 {
		n := length - 0x80 // bytes of the length
		if n < 1 || n > 3 || n > len(body) {
			return nil, false
		}
		length = 0
		for _, c := range body[:n] {
			length = length<<8 | int(c)
		}
		body = body[n:]
	}
	return body, length == len(body)
}

// The flags of a wrap token.
const (
	fromAcceptor = 1 << iota
	isSealed
	underAcceptorKey // the acceptor's subkey
)

// wrapHeader is the length of a wrap token's header.
const wrapHeader = 16

// wrapHeaderOf returns the header of a token without encryption, as it is under the checksum.
func wrapHeaderOf(flags byte, number uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{tokenWrap >> 8, tokenWrap & 0xff, flags, 0xff, 0, 0, 0, 0}, number)
}

// wrap returns a wrap token with a payload and its checksum (RFC 4121, section 4.2.6.2).
func wrap(k key, usage uint32, flags byte, number uint64, payload []byte) ([]byte, error) {
	header := wrapHeaderOf(flags, number)
	sum, err := k.checksum(append(bytes.Clone(payload), header...), usage)
	if err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint16(header[4:], uint16(len(sum)))
	return append(append(header, payload...), sum...), nil
}

// unwrap returns the payload of a wrap token, which must have these flags and this number.
func unwrap(k key, usage uint32, flags byte, number uint64, token []byte) (payload []byte, err error) {
	switch {
	case len(token) < wrapHeader || binary.BigEndian.Uint16(token) != tokenWrap || token[3] != 0xff:
		return nil, faultf(BadToken, "the token of %d bytes is no wrap token", len(token))
	case token[2]&isSealed != 0:
		return nil, faultf(BadToken, "the wrap token is encrypted; must be signed alone (RFC 4752)")
	case token[2] != flags:
		return nil, faultf(BadToken, "the wrap token has the flags %#x; must be %#x", token[2], flags)
	}
	got := binary.BigEndian.Uint64(token[8:])
	if got != number {
		return nil, faultf(BadToken, "the wrap token has the sequence number %d; must be %d", got, number)
	}
	sumSize, rotation := int(binary.BigEndian.Uint16(token[4:])), int(binary.BigEndian.Uint16(token[6:]))
	body := token[wrapHeader:]
	if sumSize != k.checksumSize || sumSize > len(body) {
		return nil, faultf(BadToken, "the wrap token has a checksum of %d bytes; must be %d", sumSize, k.checksumSize)
	}
	rotation %= len(body)
	body = append(bytes.Clone(body[rotation:]), body[:rotation]...) // the sender has rotated it to the right
	payload, sum := body[:len(body)-sumSize], body[len(body)-sumSize:]
	if !k.verifyChecksum(append(bytes.Clone(payload), wrapHeaderOf(flags, number)...), sum, usage) {
		return nil, faultf(BadToken, "the wrap token has a wrong checksum")
	}
	return payload, nil
}
