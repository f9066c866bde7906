/* What cppcheck has to know of PostgreSQL: who reports an error does not return. */
#include <stdlib.h>

#define LOG 15
#define NOTICE 18
#define WARNING 19
#define ERROR 21
#define FATAL 22

#define ereport(level, ...) \
	do { \
		__VA_ARGS__; \
		if ((level) >= ERROR) \
			abort(); \
	} while (0)
