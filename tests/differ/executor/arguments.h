/* The words behind an operation's name, by number. */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H

#define W(n) s->word[at + (n)]
#define N(n) number(W(n))
#define F(n) descriptor(W(n))
#define P(n) path(W(n))
/* Whether this is operation `name`, with at least so many words behind it. */
#define IS(name, least) (!strcmp(s->word[at], name) && s->words > at + (least))

#endif
