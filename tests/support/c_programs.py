"""C programs that use much of a C library: numbers as text, sorting, strings, files, memory."""

LIBRARY = r"""
#include <ctype.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node { struct node *left, *right; int key; char name[12]; };

static struct node *insert(struct node *n, int key) {
  if (!n) { n = calloc(1, sizeof *n); n->key = key; snprintf(n->name, sizeof n->name, "n%d", key); return n; }
  if (key < n->key) n->left = insert(n->left, key); else n->right = insert(n->right, key);
  return n;
}
static unsigned walk(struct node *n, unsigned h) {
  if (!n) return h;
  h = walk(n->left, h);
  for (char *c = n->name; *c; ++c) h = h * 31 + (unsigned char)*c;
  return walk(n->right, h);
}
static int by_value(const void *a, const void *b) {
  double x = *(double *)a, y = *(double *)b; return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  printf("%d arguments:", argc - 1);
  for (int i = 1; i < argc; ++i) printf(" <%s>", argv[i]);
  printf("\n");
  double values[257], sum = 0;
  uint64_t state = 88172645463325252u;
  for (int i = 0; i < 257; ++i) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    values[i] = ldexp((double)(int64_t)state, -40) * sin(i) + sqrt(i) / cbrt(i + 1.0);
  }
  qsort(values, 257, sizeof *values, by_value);
  for (int i = 0; i < 257; ++i) sum += values[i] * pow(0.99, i) + exp(-i / 20.0) * log1p(i) - atan2(i, 3);
  printf("%.17g %a %.3e %g\n", sum, values[13], values[250], fmod(sum, 3));
  float f = 1;
  for (int i = 1; i < 40; ++i) f = f * 1.37f + fmaf(f, 0.25f, -(float)i) / 3;
  printf("%.9g %d %u %lld %llu\n", f, (int)f, (unsigned)fabsf(f), (long long)(f * 1e9), (unsigned long long)fabsf(f));
  struct node *tree = NULL;
  for (int i = 0; i < 500; ++i) tree = insert(tree, (int)(i * 7919u % 1009));
  printf("%u\n", walk(tree, 17));
  char text[200] = "the quick brown fox", *word = strtok(text, " ");
  for (; word; word = strtok(NULL, " ")) { word[0] = (char)toupper(word[0]); printf("%s/%zu ", word, strlen(word)); }
  int64_t a = -1234567890123456789, b = 987654321;
  printf("\n%lld %lld %llu %d\n", (long long)(a / b), (long long)(a % b), (unsigned long long)a / 12345u,
         (int)(a >> 33));
  char *line = NULL; size_t room = 0; long got;
  while ((got = getline(&line, &room, stdin)) > 0) printf("%ld:%s", got, line);
  void *big = malloc(50 << 20);
  memset(big, 1, 50 << 20);
  unsigned check = 0;
  for (int i = 0; i < 50 << 20; i += 4099) check += ((unsigned char *)big)[i];
  printf("%u\n", check);
  free(big);
  fprintf(stderr, "done\n");
  return argc * 3;
}
"""

STREAMS = r"""
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void said(FILE *to, const char *form, ...) { va_list a; va_start(a, form); vfprintf(to, form, a); va_end(a); }
int main(int argc, char **argv) {
  errno = ENOENT; perror("perror");
  fprintf(stderr, "%s: %d\n", strerror(EACCES), errno);
  int copy = dup(1);
  dprintf(copy, "dup %d\n", copy > 2);
  FILE *again = fdopen(dup(2), "w");
  said(again, "%-8.3e|%+a|%*d|%s\n", 12345.678, 1.0 / 3, 7, 42, "text");
  fclose(again);
  int high = fcntl(1, F_DUPFD, 20);
  dprintf(high, "at %d, mode %d\n", high, (fcntl(high, F_GETFL) & O_ACCMODE) != O_RDONLY);
  close(high), close(copy);
  printf("closed: %zd %d\n", write(high, "x", 1), errno == EBADF);
  fflush(stdout);
  int one = dup3(2, 17, 0);
  dprintf(one, "dup3 %d %d\n", dup3(17, 17, 0), errno == EINVAL);
  printf("bad: %d %d %d\n", dup(99), dup3(98, 5, 0), fcntl(97, F_GETFD)); fflush(stdout);
  close(0);
  printf("lowest %d\n", dup(1)); fflush(stdout);
  size_t size = 1000; unsigned char *p = malloc(size); unsigned sum = 0;
  memset(p, 1, size);
  while (size < 40u << 20) { p = realloc(p, size * 3); memset(p + size, (int)(size & 255), size * 2); size *= 3; }
  for (size_t i = 0; i < size; i += 997) sum += p[i];
  p = realloc(p, 70000);
  printf("%u %u\n", sum, p[69999]); free(p);
  fflush(stdout);
  if (argc > 1 && !strcmp(argv[1], "assert")) assert(argc > 5 && "too few");
  if (argc > 1 && !strcmp(argv[1], "abort")) abort();
  close(1);
  return printf("lost\n") > 0 && fflush(stdout) != 0 ? 3 : 4;
}
"""

FILES = r"""
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(void) {
  char line[50] = "";
  FILE *f = freopen("/out.txt", "w", stdout);
  if (!f) return 1;
  printf("into the file\n"); fflush(stdout);
  int copy = dup(fileno(stdout));
  if (write(copy, "twice\n", 6) != 6) return 2;
  fclose(stdout);
  if (write(copy, "thrice\n", 7) != 7) return 3;   /* another descriptor of the same file stays open */
  f = fopen("/out.txt", "r");
  while (fgets(line, 50, f)) fputs(line, stderr);
  return 0;
}
"""
