package recipes

import (
	"bufio"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"rollcall/client"
	"rollcall/client/fence"
)

// sqliteScript carries out statements on a database file: one JSON object per line, a statement and its arguments, and
// one per line as the reply.
const sqliteScript = `
import json, sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
for line in sys.stdin:
    request = json.loads(line)
    try:
        cursor = db.execute(request["sql"], request["args"] or [])
        reply = {"rows": cursor.fetchall(), "changed": cursor.rowcount}
    except sqlite3.Error as e:
        reply = {"error": str(e)}
    print(json.dumps(reply), flush=True)
`

// sqlite is a driver of database/sql for SQLite, by Python's module.
type sqlite struct{ path string }

// sqliteConn is a connection: a process.
type sqliteConn struct {
	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

type sqliteReply struct {
	Rows    [][]any
	Changed int64
	Error   string
}

func (s sqlite) Driver() driver.Driver { return nil }

func (s sqlite) Connect(context.Context) (driver.Conn, error) {
	process := exec.Command("/usr/bin/python3", "-c", sqliteScript, s.path)
	in, err := process.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &sqliteConn{process, in, bufio.NewReader(out)}, process.Start()
}

func (c *sqliteConn) run(statement string, args []driver.NamedValue) (reply sqliteReply, err error) {
	values := []any{}
	for _, arg := range args {
		values = append(values, arg.Value)
	}
	line, err := json.Marshal(map[string]any{"sql": statement, "args": values})
	if err != nil {
		return reply, err
	}
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		return reply, err
	}
	if line, err = c.out.ReadBytes('\n'); err != nil {
		return reply, err
	}
	if err := json.Unmarshal(line, &reply); err != nil {
		return reply, err
	}
	if reply.Error != "" {
		return reply, errors.New(reply.Error)
	}
	return reply, nil
}

func (c *sqliteConn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }

func (c *sqliteConn) Close() error { return errors.Join(c.in.Close(), c.process.Wait()) }

func (c *sqliteConn) Begin() (driver.Tx, error) {
	_, err := c.run("BEGIN", nil)
	return c, err
}

func (c *sqliteConn) Commit() error {
	_, err := c.run("COMMIT", nil)
	return err
}

func (c *sqliteConn) Rollback() error {
	_, err := c.run("ROLLBACK", nil)
	return err
}

func (c *sqliteConn) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	reply, err := c.run(query, args)
	return driver.RowsAffected(reply.Changed), err
}

func (c *sqliteConn) QueryContext(_ context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	reply, err := c.run(query, args)
	return &sqliteRows{reply.Rows}, err
}

// sqliteRows are rows of one column with a number.
type sqliteRows struct{ rows [][]any }

func (r *sqliteRows) Columns() []string { return []string{"token"} }
func (r *sqliteRows) Close() error      { return nil }

func (r *sqliteRows) Next(row []driver.Value) error {
	if len(r.rows) == 0 {
		return io.EOF
	}
	row[0] = r.rows[0][0]
	r.rows = r.rows[1:]
	return nil
}

// The statements of the package fence run on SQLite, and reject smaller tokens.
func TestFenceSQL(t *testing.T) {
	db := sql.OpenDB(sqlite{filepath.Join(t.TempDir(), "db")})
	defer func() { _ = db.Close() }()
	ctx := t.Context()
	for _, statement := range []string{
		fence.CreateTable, "CREATE TABLE report (text VARCHAR(20))", "INSERT INTO report VALUES ('')",
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			t.Fatal(statement, err)
		}
	}
	write := func(s fence.SQL, resource string, token client.Token) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if err := s.Check(ctx, tx, resource, token); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE report SET text = ?", token); err != nil {
			return err
		}
		return tx.Commit()
	}
	if err := write(fence.SQL{}, "nightly", 5); !errors.Is(err, fence.ErrUnknownResource) {
		t.Fatalf("without a row: %v", err)
	}
	if _, err := db.ExecContext(ctx, fence.AddResource, "nightly"); err != nil {
		t.Fatal(err)
	}
	for _, token := range []client.Token{5, 5, 9} {
		if err := write(fence.SQL{}, "nightly", token); err != nil {
			t.Fatalf("token %d: %v", token, err)
		}
	}
	for _, s := range []fence.SQL{{}, {Numbered: true}} {
		err := write(s, "nightly", 8)
		if stale, ok := errors.AsType[*fence.StaleError](err); !ok || stale.Greatest != 9 || stale.Token != 8 {
			t.Errorf("%+v: token 8: %v", s, err)
		}
		if err := write(s, "nightly", 9); err != nil {
			t.Errorf("%+v: token 9: %v", s, err)
		}
		if err := write(s, "nightly", 0); !errors.Is(err, fence.ErrInvalidToken) {
			t.Errorf("%+v: token 0: %v", s, err)
		}
	}
	var text string
	if err := db.QueryRowContext(ctx, "SELECT text FROM report").Scan(&text); err != nil || text != "9" {
		t.Errorf("the report has %q, %v", text, err)
	}
}

// While the transaction of one holder has not ended, another holder's transaction does not get past the check.
func TestFenceSQLExcludes(t *testing.T) {
	db := sql.OpenDB(sqlite{filepath.Join(t.TempDir(), "db")})
	defer func() { _ = db.Close() }()
	ctx := t.Context()
	for _, statement := range []string{fence.CreateTable, strings.Replace(fence.AddResource, "?", "'nightly'", 1)} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			t.Fatal(statement, err)
		}
	}
	first, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := (fence.SQL{}).Check(ctx, first, "nightly", 5); err != nil {
		t.Fatal(err)
	}
	second, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := (fence.SQL{}).Check(ctx, second, "nightly", 6); err == nil || !strings.Contains(err.Error(), "locked") {
		t.Errorf("beside a transaction of an older token: %v", err) // SQLite does not wait here
	}
	if err := errors.Join(second.Rollback(), first.Commit()); err != nil {
		t.Fatal(err)
	}
}
