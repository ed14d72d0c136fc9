package vectors_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ma2h/ma2h-go/internal/vectors"
)

const complete = `{"name":"a","kind":"ack","body":{},"header":"h","keys":[{"alg":"hmac-sha256","secret":"s"}],"now":1,"expect":"ok","context":"c","payload":"p","digest":"d"}`

func load(t *testing.T, pinned int, files ...string) error {
	t.Helper()
	dir := t.TempDir()
	for i, text := range files {
		if err := os.WriteFile(filepath.Join(dir, string(rune('a'+i))+".json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := vectors.Load(dir, pinned)
	if err == nil && len(got) != len(files) {
		t.Errorf("%d vectors of %d files", len(got), len(files))
	}
	return err
}

func TestACompleteVectorLoads(t *testing.T) {
	if err := load(t, 1, complete); err != nil {
		t.Error(err)
	}
	varied := strings.NewReplacer(`"a"`, `"b"`, `"ok"`, `"signature"`, `,"context":"c","payload":"p","digest":"d"`, `,"base":"a"`).Replace(complete)
	if err := load(t, 2, complete, varied); err != nil {
		t.Error(err)
	}
	if err := load(t, 2, complete, strings.Replace(varied, `"base":"a"`, `"base":"z"`, 1)); err == nil {
		t.Error("a base that is not there passes")
	}
}

func TestAVectorThatCouldPassUnseenFailsTheLoad(t *testing.T) {
	if err := load(t, 0); err == nil {
		t.Error("an empty folder passes")
	}
	if err := load(t, 2, complete); err == nil {
		t.Error("a lost file passes")
	}
	if err := load(t, 1, complete, strings.Replace(complete, `"a"`, `"b"`, 1)); err == nil {
		t.Error("a file past the pin passes")
	}
	for old, bad := range map[string]string{
		`"expect":"ok"`:       `"expect":"okay"`,
		`"now":1`:             `"now":1,"nwo":2`,
		`"name":"a"`:          `"name":"b"`,
		`"kind":"ack"`:        `"kind":"message"`,
		`"body":{}`:           `"body":{},"body_text":"{}"`,
		`"body":{},`:          ``,
		`"secret":"s"`:        `"secret":""`,
		`"alg":"hmac-sha256"`: `"alg":"none"`,
		`,"digest":"d"`:       ``,
		`"context":"c",`:      ``,
		`"header":"h"`:        `"header":"h","header":"g"`,
		`"payload":"p"`:       `"payload":"p","pins":"nothing"`,
		`"digest":"d"`:        `"digest":"d","callback_url":"u"`,
		`"kind"`:              `"body_base64":"!","kind"`,
	} {
		text := strings.Replace(complete, old, bad, 1)
		if text == complete {
			t.Fatalf("%s is not in the text", old)
		}
		if err := load(t, 1, text); err == nil {
			t.Errorf("%s passes", bad)
		}
	}
	refusedWithoutBase := strings.NewReplacer(`"ok"`, `"stale"`, `,"context":"c","payload":"p","digest":"d"`, ``).Replace(complete)
	if err := load(t, 1, refusedWithoutBase); err == nil {
		t.Error("a refusal without the vector it varies passes")
	}
}
