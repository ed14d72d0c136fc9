package signed

import "github.com/ma2h/ma2h-go/internal/canon"

// Payload returns the text that is digested.
func (c *Context) Payload(doc canon.Doc) string {
	return string(c.digest.append(nil, doc))
}

// Orders returns, for each row, every list that must be in order.
func Orders() (lists [][]string) {
	for _, c := range table {
		var names []string
		for _, m := range c.members {
			names = append(names, m.name)
		}
		lists = append(lists, names)
		if c.digest != nil {
			lists = append(lists, c.digest.members)
		}
	}
	return lists
}
