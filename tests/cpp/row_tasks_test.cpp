#include "src/tile/cpu/row_tasks.h"

#include <gtest/gtest.h>

namespace jaxator {
namespace {

const void* at(int64_t bytes) { return reinterpret_cast<const void*>(static_cast<uintptr_t>(bytes)); }

struct Problem {
  int64_t address, row_bytes, rows;
};

const Problem kProblems[] = {
    {0, 8192, 4096},
    {64, 8192, 4096},
    {kHugePage - 4032, 8192, 4096},          // where the C library puts 32 MiB
    {3 * kHugePage + 2, 6, 3000001},         // rows that no page is a multiple of
    {kHugePage - 2, 3 * kHugePage + 10, 9},  // rows longer than a page: tasks without rows
    {kHugePage - 64, 64, 1},
    {128, 2, 0},
    {128, 0, 5},
};

TEST(RowTasks, EachRowIsInOneTaskAndInOrder) {
  for (const Problem& p : kProblems)
    for (const bool by_pages : {false, true}) {
      const RowTasks tasks(at(p.address), p.row_bytes, p.rows, 7, by_pages);
      int64_t next = 0;
      for (int64_t task = 0; task < tasks.count(); task++) {
        const RowRange rows = tasks.rows_of(task);
        EXPECT_EQ(rows.begin, next);
        EXPECT_LE(rows.begin, rows.end);
        next = rows.end;
      }
      EXPECT_EQ(next, p.rows) << p.address << ' ' << p.row_bytes << ' ' << by_pages;
    }
}

TEST(RowTasks, RowsOfATaskBeginInItsPage) {
  for (const Problem& p : kProblems) {
    const RowTasks tasks(at(p.address), p.row_bytes, p.rows, 7, true);
    for (int64_t task = 0; task < tasks.count(); task++) {
      const RowRange rows = tasks.rows_of(task);
      for (const int64_t row : {rows.begin, rows.end - 1})
        if (rows.begin < rows.end)
          EXPECT_EQ((p.address + row * p.row_bytes) / kHugePage - p.address / kHugePage, task) << p.row_bytes << ' ' << row;
    }
  }
}

TEST(RowTasks, WithoutPagesTasksHaveTheRowsAskedFor) {
  const RowTasks tasks(at(64), 8192, 20, 7, false);
  ASSERT_EQ(tasks.count(), 3);
  EXPECT_EQ(tasks.rows_of(1).begin, 7);
  EXPECT_EQ(tasks.rows_of(2).end, 20);
}

}  // namespace
}  // namespace jaxator
