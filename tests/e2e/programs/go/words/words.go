package words

import "sort"

// Sorted returns a sorted copy.
func Sorted(words []string) []string {
	sorted := append([]string(nil), words...)
	sort.Strings(sorted)
	return sorted
}
