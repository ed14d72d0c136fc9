package types_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ma2h/ma2h-go/internal/limits"
	"github.com/ma2h/ma2h-go/types"
)

// printed is what an exported struct may show of itself: ids, enums, codes.
// Everything else of it is text of a person, a credential, state, or a URL.
var printed = map[string]struct {
	value any
	may   string
}{
	"Ack":             {types.Ack{}, "InReplyTo ResolutionID"},
	"AckOffer":        {types.AckOffer{}, ""},
	"AckRequest":      {types.AckRequest{}, "ResolutionID"},
	"Action":          {types.Action{}, ""},
	"Agent":           {types.Agent{}, "ID RunID Runtime"},
	"Callback":        {types.Callback{}, "Mode"},
	"CallbackAuth":    {types.CallbackAuth{}, "Scheme"},
	"CancelResult":    {types.CancelResult{}, "ID Status Resolution"},
	"Capability":      {types.Capability{}, "Version"},
	"ChecklistItem":   {types.ChecklistItem{}, ""},
	"DecodeError":     {types.DecodeError{}, ""},
	"Delivery":        {types.Delivery{}, "State"},
	"Directive":       {types.Directive{}, "ID"},
	"ErrorBody":       {types.ErrorBody{}, "Error.Code"},
	"ErrorDetail":     {types.ErrorDetail{}, "Code"},
	"FieldError":      {types.FieldError{}, "Field Problem Section"},
	"File":            {types.File{}, ""},
	"Inbound":         {types.Inbound{}, ""},
	"InboxAckRequest": {types.InboxAckRequest{}, ""},
	"InboxAckResult":  {types.InboxAckResult{}, ""},
	"InboxBatch":      {types.InboxBatch{}, ""},
	"InboxEntry":      {types.InboxEntry{}, "Kind"},
	"Message":         {types.Message{}, "Type Version Agent.ID"},
	"MessageView":     {types.MessageView{}, "ID Message.Type Status"},
	"Option":          {types.Option{}, ""},
	"Part":            {types.Part{}, "Kind"},
	"Permissions":     {types.Permissions{}, ""},
	"Presence":        {types.Presence{}, "AgentID State"},
	"PresenceIn":      {types.PresenceIn{}, ""},
	"RateLimit":       {types.RateLimit{}, ""},
	"Request":         {types.Request{}, "Mode"},
	"Response":        {types.Response{}, "InReplyTo ResolutionID Resolution"},
	"ResponseAgent":   {types.ResponseAgent{}, "ID RunID"},
	"ResponseDetail":  {types.ResponseDetail{}, "Actor"},
	"SecretRef":       {types.SecretRef{}, "Ref"},
	"SubmitAck":       {types.SubmitAck{}, "ID Status"},
	"Version":         {types.Version{}, ""},
}

// plainTypes are the exported types that are no structs: Raw, and enums, which
// print as the word they are.
var plainTypes = []string{
	"AuthScheme", "CallbackMode", "DeliveryState", "Mode", "PartKind", "PresenceState",
	"Priority", "Raw", "Resolution", "Runtime", "Status", "Verb",
}

func TestEveryExportedTypeIsInTheTableOfWhatItMayPrint(t *testing.T) {
	found := 0
	files, err := parsePackage()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || !spec.Name.IsExported() {
				return true
			}
			found++
			if _, isStruct := spec.Type.(*ast.StructType); isStruct {
				if _, listed := printed[spec.Name.Name]; !listed {
					t.Errorf("%s is missing", spec.Name.Name)
				}
			} else if !slices.Contains(plainTypes, spec.Name.Name) {
				t.Errorf("%s is neither a struct nor listed", spec.Name.Name)
			}
			return true
		})
	}
	if want := len(printed) + len(plainTypes); found != want {
		t.Errorf("the package has %d exported types, the tables %d", found, want)
	}
	for name, row := range printed {
		if got := reflect.TypeOf(row.value).Name(); got != name {
			t.Errorf("row %s holds a %s", name, got)
		}
	}
}

func parsePackage() ([]*ast.File, error) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		return nil, err
	}
	var out []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			return nil, err
		}
		out = append(out, file)
	}
	return out, nil
}

// filler puts a word of its own into every place that holds text.
type filler struct {
	words map[string]string // word to the path of its field
	long  bool
}

func (f *filler) word(path string) string {
	w := fmt.Sprintf("zq%03dk", len(f.words))
	if f.long {
		w += strings.Repeat("a", 2*limits.MaxQuoted)
	}
	f.words[w] = strings.TrimPrefix(path, ".")
	return w
}

func (f *filler) fill(v reflect.Value, path string) {
	if v.Type() == reflect.TypeFor[types.Raw]() {
		v.SetBytes([]byte(`"` + f.word(path) + `"`))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(f.word(path))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), path)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		f.fill(v.Index(0), path)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(key, path)
		f.fill(value, path)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				f.fill(v.Field(i), path+"."+field.Name)
			}
		}
	default:
		panic("the filler does not know " + v.Kind().String())
	}
}

// shows reports whether out has word in any form in which fmt writes bytes.
func shows(out, word string) bool {
	decimals := strings.Trim(fmt.Sprint([]byte(word)), "[]")
	gobytes := strings.Trim(strings.TrimPrefix(fmt.Sprintf("%#v", []byte(word)), "[]byte"), "{}")
	low := strings.ToLower(out)
	return strings.Contains(out, word) || strings.Contains(low, hex.EncodeToString([]byte(word))) ||
		strings.Contains(out, decimals) || strings.Contains(low, gobytes)
}

var verbs = []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X", "% x", "%10.3v"}

// outputs prints v in every way. Containers are left out of the JSON handler,
// which reaches into them with encoding/json, as sending them would.
func outputs(v any) map[string]string {
	out := map[string]string{}
	rv := reflect.ValueOf(v)
	pointer := reflect.New(rv.Type())
	pointer.Elem().Set(rv)
	slice := reflect.Append(reflect.MakeSlice(reflect.SliceOf(rv.Type()), 0, 1), rv)
	pointers := reflect.Append(reflect.MakeSlice(reflect.SliceOf(pointer.Type()), 0, 1), pointer)
	byName := reflect.MakeMap(reflect.MapOf(reflect.TypeFor[string](), rv.Type()))
	byName.SetMapIndex(reflect.ValueOf("k"), rv)
	holder := struct {
		Value any
		Inner struct{ Pointer any }
	}{Value: v}
	holder.Inner.Pointer = pointer.Interface()
	forms := map[string]any{
		"value": v, "pointer": pointer.Interface(), "slice": slice.Interface(),
		"pointers": pointers.Interface(), "map": byName.Interface(), "struct": holder, "struct pointer": &holder,
	}
	for form, x := range forms {
		for _, verb := range verbs {
			out[form+" "+verb] = fmt.Sprintf(verb, x)
		}
		out[form+" error"] = fmt.Errorf("wrapped: %v", x).Error()
		var text bytes.Buffer
		slog.New(slog.NewTextHandler(&text, nil)).WithGroup("g").Info("m", "k", x)
		out[form+" slog text"] = text.String()
		if form == "value" || form == "pointer" {
			var json bytes.Buffer
			slog.New(slog.NewJSONHandler(&json, nil)).With("k", x).Info("m", slog.Group("g", "k", x))
			out[form+" slog JSON"] = json.String()
		}
	}
	return out
}

func TestNoTypePrintsMoreThanIdsAndEnums(t *testing.T) {
	for name, row := range printed {
		f := &filler{words: map[string]string{}}
		v := reflect.New(reflect.TypeOf(row.value)).Elem()
		f.fill(v, "")
		may := strings.Fields(row.may)
		for form, out := range outputs(v.Interface()) {
			for word, path := range f.words {
				if shows(out, word) && !slices.Contains(may, path) {
					t.Errorf("%s as %s shows %s: %s", name, form, path, out)
				}
			}
		}
	}
}

// Without it a table row that allows a field which is never printed could
// hide a filler that fills nothing.
func TestWhatATypeMayPrintIsPrinted(t *testing.T) {
	for name, row := range printed {
		f := &filler{words: map[string]string{}}
		v := reflect.New(reflect.TypeOf(row.value)).Elem()
		f.fill(v, "")
		if name == "ResponseDetail" {
			continue // of the actor only the kind
		}
		value := v.Interface()
		if name == "FieldError" {
			value = v.Addr().Interface()
		}
		out := fmt.Sprintf("%v", value)
		for word, path := range f.words {
			if slices.Contains(strings.Fields(row.may), path) && !strings.Contains(out, word) {
				t.Errorf("%s does not show %s: %s", name, path, out)
			}
		}
	}
}

func TestRawPrintsAsItsSizeInEveryForm(t *testing.T) {
	raw := types.Raw(`"zq000k"`)
	for form, out := range outputs(raw) {
		if shows(out, "zq000k") {
			t.Errorf("%s: %s", form, out)
		}
	}
	if got := fmt.Sprint(raw); got != "Raw{8 bytes}" {
		t.Errorf("a Raw prints as %s", got)
	}
}

func TestACallbackHidesUserPathAndQueryOfItsURL(t *testing.T) {
	cb := types.Callback{Mode: types.CallbackPush, URL: "https://zq001k:zq002k@bot.example/zq003k?token=zq004k#zq005k",
		Auth: &types.CallbackAuth{Scheme: types.AuthHMAC, SecretRef: "env:zq006k"}}
	for form, out := range outputs(cb) {
		if shows(out, "zq00") {
			t.Errorf("%s: %s", form, out)
		}
	}
	if got := fmt.Sprint(cb); got != "Callback{mode=push host=bot.example}" {
		t.Errorf("a Callback prints as %s", got)
	}
}

func TestWhatIsPrintedIsCutAndQuoted(t *testing.T) {
	for name, row := range printed {
		f := &filler{words: map[string]string{}, long: true}
		v := reflect.New(reflect.TypeOf(row.value)).Elem()
		f.fill(v, "")
		for word, path := range f.words {
			if out := fmt.Sprintf("%+v", v.Interface()); name != "FieldError" && strings.Contains(out, word) {
				t.Errorf("%s prints all of %s: %s", name, path, out)
			}
		}
	}
	ack := types.SubmitAck{ID: strings.Repeat("a", 100), Status: "op\nen \x1b[31m"}
	want := `SubmitAck{id=` + strings.Repeat("a", 32) + `… status="op\nen \x1b[31m"}`
	if got := fmt.Sprint(ack); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestANilPointerPrintsWithoutPanic(t *testing.T) {
	if got := fmt.Sprintf("%v", (*types.Message)(nil)); strings.Contains(got, "PANIC") {
		t.Errorf("a nil message prints as %s", got)
	}
}
