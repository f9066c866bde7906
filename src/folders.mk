# The folders of the sources, and whose headers the files in each may include besides
# those beside them: what lies below it.  See src/README.
#
# In:  SRC, the path to this folder.
# Out: SOURCE_FOLDERS, from the lowest to the highest, CLIENT_FOLDERS, which know no PostgreSQL,
#      INCLUDES_<folder> for the compiler, and INCLUDES_tests for tests of the client.

CLIENT_FOLDERS := common client/library client
SOURCE_FOLDERS := $(CLIENT_FOLDERS) backend

INCLUDES_common := -iquote $(SRC)/zkclient
INCLUDES_client/library := $(INCLUDES_common) -iquote $(SRC)/common
INCLUDES_client := $(INCLUDES_common) -iquote $(SRC)/common -iquote $(SRC)/client/library
INCLUDES_backend := $(INCLUDES_common) -iquote $(SRC)/common
INCLUDES_tests := $(INCLUDES_common) $(CLIENT_FOLDERS:%=-iquote $(SRC)/%)
