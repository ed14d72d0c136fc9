package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// Mutant is one change of one place.
type Mutant struct {
	ID   int    // in the binary
	File string // relative to the module
	Key  string // names the mutant for as long as its text stays
	Line int
}

// The changes, as keys and the report name them.
const (
	opTrue  = "true"  // a condition holds always, or is dropped from an &&
	opFalse = "false" // a condition never holds, or is dropped from an ||
	opEqual = "equal" // < and <=, > and >= exchanged
	opByOne = "byone" // the bound moved by one the other way
	opLeft  = "left"  // min or max replaced by its first argument
	opRight = "right" // by its second
	opDrop  = "drop"  // a statement removed
	opNil   = "nil"   // an error returned as nil
	opNever = "never" // a case of a select that never comes
)

const hook = "mutant_"

// rewriter puts hooks into the source of one file. It inserts text, so that
// lines, comments and directives stay where they are.
type rewriter struct {
	fset    *token.FileSet
	info    *types.Info
	src     []byte
	file    string
	next    int // number of the next mutant
	fn      string
	mutants []Mutant
	keys    map[string]int
	edits   []edit
}

// edit replaces src[at:end] by text. Of those at one place the closing ones
// come first, in the order in which they were made.
type edit struct {
	at, end int
	open    bool
	text    string
}

func (r *rewriter) offset(p token.Pos) int { return r.fset.Position(p).Offset }

func (r *rewriter) text(n ast.Node) string { return string(r.src[r.offset(n.Pos()):r.offset(n.End())]) }

func (r *rewriter) open(p token.Pos, format string, args ...any) {
	r.edits = append(r.edits, edit{r.offset(p), r.offset(p), true, fmt.Sprintf(format, args...)})
}

func (r *rewriter) close(p token.Pos, text string) {
	r.edits = append(r.edits, edit{r.offset(p), r.offset(p), false, text})
}

func (r *rewriter) replace(p token.Pos, old, text string) {
	r.edits = append(r.edits, edit{r.offset(p), r.offset(p) + len(old), true, text})
}

// number takes n numbers; names are those of the mutants in use, "" for none.
func (r *rewriter) number(n ast.Node, names ...string) int {
	id := r.next
	r.next += len(names)
	src := strings.Join(strings.Fields(r.text(n)), " ")
	if len(src) > 120 {
		src = src[:120] + "..."
	}
	for i, name := range names {
		if name == "" {
			continue
		}
		key := fmt.Sprintf("%s %s %s: %s", r.file, r.fn, name, src)
		if r.keys[key]++; r.keys[key] > 1 {
			key = fmt.Sprintf("%s %s %s %d: %s", r.file, r.fn, name, r.keys[key], src)
		}
		r.mutants = append(r.mutants, Mutant{ID: id + i, File: r.file, Key: key, Line: r.fset.Position(n.Pos()).Line})
	}
	return id
}

// rewrite returns the source with hooks in its functions.
func (r *rewriter) rewrite(f *ast.File) []byte {
	r.keys = make(map[string]int)
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			r.fn = fn.Name.Name
			if fn.Recv != nil {
				recv := strings.TrimPrefix(r.text(fn.Recv.List[0].Type), "*")
				recv, _, _ = strings.Cut(recv, "[")
				r.fn = recv + "." + r.fn
			}
			r.walk(fn.Body)
		}
	}
	if len(r.mutants) == 0 {
		return r.src
	}
	r.replace(f.Name.End(), "", "; import "+hook+` "`+hookPath+`"`)
	slices.SortStableFunc(r.edits, func(a, b edit) int {
		if c := cmp.Compare(a.at, b.at); c != 0 || a.open == b.open {
			return c
		}
		if a.open {
			return 1
		}
		return -1
	})
	var out []byte
	last := 0
	for _, e := range r.edits {
		out = append(append(out, r.src[last:e.at]...), e.text...)
		last = e.end
	}
	return append(out, r.src[last:]...)
}

// walk visits n's parts; conditions are found from the statement that they
// belong to, other boolean expressions where they stand.
func (r *rewriter) walk(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BlockStmt:
			r.list(n.List, false)
			return false
		case *ast.IfStmt:
			r.part(n.Init)
			r.condition(n.Cond, true, true)
			r.walk(n.Body)
			r.part(n.Else)
			return false
		case *ast.ForStmt:
			r.part(n.Init)
			if n.Cond != nil {
				r.condition(n.Cond, false, true) // never ending loops tell nothing
			}
			r.part(n.Post)
			r.walk(n.Body)
			return false
		case *ast.SwitchStmt:
			r.switchStmt(n)
			return false
		case *ast.CaseClause:
			for _, x := range n.List {
				r.walk(x)
			}
			r.list(n.Body, false)
			return false
		case *ast.CommClause:
			r.comm(n.Comm)
			r.list(n.Body, false)
			return false
		case *ast.ReturnStmt:
			for _, x := range n.Results {
				r.result(x)
			}
			return false
		case ast.Expr:
			return !r.expr(n)
		}
		return true
	})
}

// part walks what may be missing.
func (r *rewriter) part(s ast.Stmt) {
	if s != nil {
		r.walk(s)
	}
}

// list walks statements and makes them droppable. guard is whether they are
// the body of an if that is followed by something.
func (r *rewriter) list(list []ast.Stmt, guard bool) {
	for i, s := range list {
		last := i == len(list)-1
		drop := droppable(s) && !r.cancels(s)
		switch s.(type) {
		case *ast.ReturnStmt, *ast.BranchStmt:
			// Alone it is what the condition's own mutants remove.
			drop = guard && last && i > 0
		}
		id := 0
		if drop {
			id = r.number(s, opDrop)
			r.open(s.Pos(), "if %s.Keep(%d) { ", hook, id)
		}
		if f, ok := s.(*ast.IfStmt); ok && f.Else == nil && !last {
			r.part(f.Init)
			r.condition(f.Cond, true, true)
			r.list(f.Body.List, true)
		} else {
			r.walk(s)
		}
		if drop {
			r.close(s.End(), " }")
		}
	}
}

// cancels reports a deferred cancel of a context, which frees its timer, and
// which go vet sees to.
func (r *rewriter) cancels(s ast.Stmt) bool {
	d, ok := s.(*ast.DeferStmt)
	t := types.Type(nil)
	if ok {
		t = r.info.TypeOf(d.Call.Fun)
	}
	return t != nil && t.String() == "context.CancelFunc"
}

func droppable(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch f := call.Fun.(type) {
		case *ast.SelectorExpr:
			return f.Sel.Name != "LogAttrs" && f.Sel.Name != "log" // what is logged is no check
		case *ast.Ident:
			return f.Name != "panic"
		}
		return true
	case *ast.AssignStmt:
		if s.Tok == token.DEFINE {
			return false
		}
		for _, x := range s.Lhs {
			if id, ok := x.(*ast.Ident); !ok || id.Name != "_" {
				return true
			}
		}
		_, call := s.Rhs[0].(*ast.CallExpr)
		return call
	case *ast.DeferStmt, *ast.GoStmt, *ast.SendStmt, *ast.IncDecStmt:
		return true
	}
	return false
}

// switchStmt makes the cases of a switch conditions.
func (r *rewriter) switchStmt(n *ast.SwitchStmt) {
	const tag = hook + "tag"
	r.part(n.Init)
	compare := false
	if n.Tag != nil {
		for _, c := range n.Body.List {
			compare = compare || n.Init == nil && len(c.(*ast.CaseClause).List) > 0
		}
		if compare {
			r.open(n.Tag.Pos(), "%s := ", tag)
		}
		r.walk(n.Tag)
		if compare {
			r.close(n.Tag.End(), ";")
		}
	}
	for _, s := range n.Body.List {
		c := s.(*ast.CaseClause)
		for i, x := range c.List {
			switch {
			case n.Tag == nil:
				r.condition(x, i == 0, true)
			case compare:
				id := r.number(x, name(i == 0, opTrue), opFalse)
				r.open(x.Pos(), "%s.Bool(%d, %s == ", hook, id, tag)
				r.walk(x)
				r.close(x.End(), ")")
			}
		}
		r.list(c.Body, false)
	}
}

func (r *rewriter) comm(s ast.Stmt) {
	var x ast.Expr
	switch s := s.(type) {
	case *ast.ExprStmt:
		x = s.X
	case *ast.AssignStmt:
		x = s.Rhs[0]
	default:
		return // a send, or the default
	}
	if u, ok := x.(*ast.UnaryExpr); ok && u.Op == token.ARROW {
		id := r.number(x, opNever)
		r.open(u.X.Pos(), "%s.Chan(%d, ", hook, id)
		r.walk(u.X)
		r.close(u.X.End(), ")")
	}
}

// result is one of a return statement: a boolean is a condition, an error
// that a call gives a check.
func (r *rewriter) result(x ast.Expr) {
	if r.isBool(x) {
		r.condition(x, true, true)
		return
	}
	_, call := x.(*ast.CallExpr)
	if t := r.info.TypeOf(x); call && t != nil && types.Identical(t, types.Universe.Lookup("error").Type()) {
		id := r.number(x, opNil)
		r.open(x.Pos(), "%s.Err(%d, ", hook, id)
		r.walk(x)
		r.close(x.End(), ")")
		return
	}
	r.walk(x)
}

func (r *rewriter) isBool(x ast.Expr) bool {
	tv, ok := r.info.Types[x]
	if !ok || tv.Value != nil || !tv.IsValue() {
		return false
	}
	b, ok := tv.Type.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsBoolean != 0
}

// expr handles an expression that is not in the place of a condition, and
// reports whether it did.
func (r *rewriter) expr(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.BinaryExpr:
		if r.isBool(x) {
			r.condition(x, true, true)
			return true
		}
	case *ast.UnaryExpr:
		if x.Op == token.NOT && r.isBool(x) {
			r.condition(x, true, true)
			return true
		}
	case *ast.CallExpr:
		return r.minMax(x)
	}
	return false
}

func (r *rewriter) minMax(x *ast.CallExpr) bool {
	f, ok := x.Fun.(*ast.Ident)
	if !ok || len(x.Args) != 2 || r.info.Types[x].Value != nil {
		return false
	}
	b, ok := r.info.Uses[f].(*types.Builtin)
	if !ok || b.Name() != "min" && b.Name() != "max" {
		return false
	}
	id := r.number(x, opLeft, opRight)
	r.replace(f.Pos(), f.Name, fmt.Sprintf("%s.%s", hook, map[string]string{"min": "Min", "max": "Max"}[f.Name]))
	r.open(x.Lparen+1, "%d, ", id)
	r.walk(x.Args[0])
	r.walk(x.Args[1])
	return true
}

// condition gives each part of a condition its mutants, those of which mean
// something: dropping an operand of && is making it true, of || false.
func (r *rewriter) condition(x ast.Expr, yes, no bool) {
	if !r.isBool(x) {
		r.walk(x)
		return
	}
	switch e := x.(type) {
	case *ast.ParenExpr:
		r.condition(e.X, yes, no)
		return
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			r.condition(e.X, no, yes)
			return
		}
	case *ast.BinaryExpr:
		switch e.Op {
		case token.LAND:
			r.condition(e.X, true, no)
			r.condition(e.Y, true, false)
			return
		case token.LOR:
			r.condition(e.X, yes, true)
			r.condition(e.Y, false, true)
			return
		}
	}
	id := r.number(x, name(yes, opTrue), name(no, opFalse))
	r.open(x.Pos(), "%s.Bool(%d, ", hook, id)
	if e, ok := x.(*ast.BinaryExpr); ok && r.ordered(e) {
		f, names := "Compare", []string{opEqual}
		if v := r.info.Types[e.Y].Value; v != nil && v.Kind() == constant.Int && r.whole(e.X) {
			f, names = "Bound", []string{opEqual, opByOne}
		}
		id := r.number(x, names...)
		r.open(x.Pos(), "%s.%s(%d, ", hook, f, id)
		r.walk(e.X)
		r.replace(e.OpPos, e.Op.String(), fmt.Sprintf(", %q, ", e.Op.String()))
		r.walk(e.Y)
		r.close(x.End(), ")")
	} else {
		r.parts(x)
	}
	r.close(x.End(), ")")
}

// parts walks what x is made of, not x itself.
func (r *rewriter) parts(x ast.Expr) {
	first := true
	ast.Inspect(x, func(n ast.Node) bool {
		if n == nil || first {
			first = false
			return n != nil
		}
		r.walk(n)
		return false
	})
}

func (r *rewriter) ordered(e *ast.BinaryExpr) bool {
	switch e.Op {
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		return true
	}
	return false
}

// whole reports an integer that counts, not a time.
func (r *rewriter) whole(x ast.Expr) bool {
	t := r.info.TypeOf(x)
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsInteger != 0 && t.String() != "time.Duration"
}

func name(use bool, op string) string {
	if use {
		return op
	}
	return ""
}
