//! What is asked of a transaction that somebody else began.
//!
//! A transaction belongs to a driver. All that is needed of it is one thing, a statement with its parameters and the first
//! row of its answer, so that any driver, and any version of one, can be used with a few lines.

use tokio_postgres::{Transaction, types::ToSql};

use crate::error::{next_step, shown};

/// The caller's own transaction. Here it is for `tokio_postgres`, and with the feature `sqlx` for that.
pub trait Driver: Send {
    /// Runs the statement and hands out the first row, if there is one. The error is told to people: it holds no secret.
    fn first_row(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        columns: &[Column],
    ) -> impl Future<Output = Result<Option<Vec<Cell>>, String>> + Send;
}

/// A parameter: `bytea`, `bigint`, `boolean`, `text`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Param<'a> {
    Bytes(Option<&'a [u8]>),
    Number(Option<i64>),
    Flag(bool),
    Text(&'a str),
}

/// What stands in a column of the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Column {
    Bytes,
    Number,
    Flag,
}

/// One value of the answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cell {
    Bytes(Option<Vec<u8>>),
    Number(Option<i64>),
    Flag(bool),
}

impl Driver for &Transaction<'_> {
    async fn first_row(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        columns: &[Column],
    ) -> Result<Option<Vec<Cell>>, String> {
        let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(as_sql).collect();
        let rows = self.query(sql, &params).await;
        let rows = rows.map_err(|error| format!("{}; {}", shown(&error), next_step(&error)))?;
        let Some(row) = rows.first() else { return Ok(None) };
        let cell = |(at, column): (usize, &Column)| {
            let read = match column {
                Column::Bytes => row.try_get(at).map(Cell::Bytes),
                Column::Number => row.try_get(at).map(Cell::Number),
                Column::Flag => row.try_get(at).map(Cell::Flag),
            };
            read.map_err(|error| shown(&error))
        };
        columns.iter().enumerate().map(cell).collect::<Result<_, _>>().map(Some)
    }
}

fn as_sql<'a>(param: &'a Param<'a>) -> &'a (dyn ToSql + Sync) {
    match param {
        Param::Bytes(bytes) => bytes,
        Param::Number(number) => number,
        Param::Flag(flag) => flag,
        Param::Text(text) => text,
    }
}
