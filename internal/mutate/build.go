package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// project is a module, its mutants and where what is made of it is kept.
type project struct {
	root    string // of the module
	module  string
	work    string // what is built, and the results
	mutants []Mutant
	overlay map[string]string // source to mutated copy
	digests map[string]string // of the mutated files
	all     string            // digest of all sources of the module
	atLeast time.Duration     // that tests with a mutant get
	out     io.Writer
}

const hookPath = "github.com/ma2h/ma2h-go/internal/mutate/mutant"

func openProject(root, work string) (*project, error) {
	out, err := goTool(root, "list", "-m", "-f", "{{.Dir}}\t{{.Path}}")
	if err != nil {
		return nil, err
	}
	dir, path, _ := strings.Cut(strings.TrimSpace(string(out)), "\t")
	p := &project{root: dir, module: path, work: work, overlay: make(map[string]string), digests: make(map[string]string), atLeast: 10 * time.Second, out: os.Stdout}
	h := sha256.New()
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasSuffix(filepath.ToSlash(name), "internal/mutate") {
			return fs.SkipDir
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") && filepath.Base(name) != "go.mod" {
			return err
		}
		b, err := os.ReadFile(name)
		fmt.Fprintf(h, "%s %x\n", name, sha256.Sum256(b))
		return err
	})
	p.all = hex.EncodeToString(h.Sum(nil)[:8])
	return p, err
}

func goTool(dir string, args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args[:min(3, len(args))], " "), err, exit.Stderr)
	}
	return out, err
}

// mutate makes mutated copies of a package's files, or of those named.
func (p *project) mutate(dir string, names []string) error {
	out, err := goTool(p.root, "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles", "./"+dir)
	if err != nil {
		return err
	}
	type pkg struct {
		ImportPath, Dir, Export string
		GoFiles                 []string
	}
	exports := make(map[string]string)
	var last pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var one pkg
		if err := d.Decode(&one); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		exports[one.ImportPath] = one.Export
		last = one
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range last.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(last.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	info := &types.Info{Types: make(map[ast.Expr]types.TypeAndValue), Uses: make(map[*ast.Ident]types.Object)}
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	if _, err := conf.Check(last.ImportPath, fset, files, info); err != nil {
		return err
	}
	for i, name := range last.GoFiles {
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		full := filepath.Join(last.Dir, name)
		src, err := os.ReadFile(full)
		if err != nil {
			return err
		}
		rel := filepath.ToSlash(filepath.Join(dir, name))
		next := 1
		if n := len(p.mutants); n > 0 {
			next = p.mutants[n-1].ID + 4
		}
		r := &rewriter{fset: fset, info: info, src: src, file: rel, next: next}
		text := r.rewrite(files[i])
		p.mutants = append(p.mutants, r.mutants...)
		copied := filepath.Join(p.work, "src", strings.ReplaceAll(rel, "/", "~"))
		if err := os.WriteFile(copied, text, 0o600); err != nil {
			return err
		}
		p.overlay[full] = copied
		sum := sha256.Sum256(src)
		p.digests[rel] = hex.EncodeToString(sum[:8])
	}
	return nil
}

// build compiles the tests of a package with all mutants in one binary.
func (p *project) build(dir string) (binary string, err error) {
	b, err := json.Marshal(map[string]any{"Replace": p.overlay})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(p.work, "overlay.json")
	if err := os.WriteFile(overlay, b, 0o600); err != nil {
		return "", err
	}
	binary = filepath.Join(p.work, "bin", strings.ReplaceAll(dir, "/", "~")+".test")
	_, err = goTool(p.root, "test", "-c", "-overlay", overlay, "-o", binary, "./"+dir)
	return binary, err
}
