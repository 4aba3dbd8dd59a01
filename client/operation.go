package client

import "rollcall/zk/jute"

// Operation is one of a multi. CreateOp, SetOp, DeleteOp and CheckOp make those that write; GetOp and ChildrenOp
// make those that read. The zero value is not valid.
type Operation struct {
	op    jute.Op
	ver   int32
	watch bool // of a read: it sets a watch. Never in a multi
	path  string
	data  []byte
	mode  Mode
	ops   []Operation // of a multi
}

// CreateOp creates a node, as Client.Create does.
func CreateOp(path string, data []byte, mode Mode) Operation {
	return Operation{op: mode.createOp(), path: path, data: data, mode: mode}
}

// SetOp sets a node's data, as Client.Set does.
func SetOp(path string, data []byte, version int32) Operation {
	return Operation{op: jute.OpSetData, path: path, data: data, ver: version}
}

// DeleteOp deletes a node, as Client.Delete does.
func DeleteOp(path string, version int32) Operation {
	return Operation{op: jute.OpDelete, path: path, ver: version}
}

// CheckOp fails the multi unless there is a node with this version. AnyVersion matches any.
func CheckOp(path string, version int32) Operation {
	return Operation{op: jute.OpCheck, path: path, ver: version}
}

// GetOp reads a node's data.
func GetOp(path string) Operation { return Operation{op: jute.OpGetData, path: path} }

// ChildrenOp reads the names of a node's children.
func ChildrenOp(path string) Operation { return Operation{op: jute.OpGetChildren, path: path} }

// existsOp reads whether there is a node.
func existsOp(path string) Operation { return Operation{op: jute.OpExists, path: path} }

// namesOp reads the names of a node's children, and its Stat. It cannot be in a multi.
func namesOp(path string) Operation { return Operation{op: jute.OpGetChildren2, path: path} }

// withWatch returns a read that sets a watch.
func (o Operation) withWatch() Operation {
	o.watch = true
	return o
}

// Path returns the path that the operation is about.
func (o Operation) Path() string { return o.path }

// check returns an ErrBadArguments unless the operation has valid paths. The operations of a multi must be of one kind.
func (o *Operation) check() error {
	switch o.op {
	case jute.OpCloseSession:
		return nil
	case jute.OpMulti, jute.OpMultiRead:
		return checkOperations(o.op, o.ops)
	}
	return o.checkPath()
}

// appendBody appends the record of the operation.
func (o *Operation) appendBody(b []byte, root chroot) []byte {
	if o.op == jute.OpMulti || o.op == jute.OpMultiRead {
		for i := range o.ops {
			b = jute.MultiHeader{Type: o.ops[i].op, Err: unusedCode}.Append(b)
			b = o.ops[i].appendBody(b, root)
		}
		return jute.AppendMultiEnd(b)
	}
	b = root.appendPath(b, o.path)
	switch o.op {
	case jute.OpGetData, jute.OpExists, jute.OpGetChildren, jute.OpGetChildren2:
		return jute.AppendBool(b, o.watch)
	case jute.OpDelete, jute.OpCheck:
		return jute.AppendInt32(b, o.ver)
	case jute.OpSetData:
		return jute.AppendInt32(jute.AppendBytes(b, o.data), o.ver)
	}
	b = jute.AppendBytes(b, o.data)
	acl := aclRecords(o.mode.acl)
	b = jute.AppendCount(b, len(acl))
	for i := range acl {
		b = acl[i].Append(b)
	}
	b = jute.AppendInt32(b, int32(o.mode.mode))
	if o.op == jute.OpCreateTTL {
		b = jute.AppendInt64(b, o.mode.ttl.Milliseconds())
	}
	return b
}

// request is the record of a call with one operation.
type request struct {
	Operation
	root chroot
}

// Append implements session.Record.
func (r *request) Append(b []byte) []byte { return r.appendBody(b, r.root) }

// createOp returns the operation that creates a node.
func (m Mode) createOp() jute.Op {
	switch {
	case m.mode.IsTTL():
		return jute.OpCreateTTL
	case m.mode.IsContainer():
		return jute.OpCreateContainer
	}
	return jute.OpCreate2
}
