//! From one file to the next, and what becomes of the old ones.

use std::{fs, io::Write as _, path::Path};

use serde_json::json;

use super::{
    files,
    log::{Audit, AuditError, Inner},
    row::Action,
};

impl Inner {
    /// Closes the file that grows and goes on in the next, whose first row names the chain again and is signed: so each
    /// file can be proved by itself, and that it follows the one before it.
    ///
    /// The next file is whole before the first is closed. A crash at any moment leaves either of them as `audit.log`, or
    /// the next one beside it, which the next start takes up.
    pub(super) fn turn(&mut self, dir: &Path, at: u64) -> Result<(), AuditError> {
        if self.since_checkpoint > 0 {
            self.checkpoint(Some(dir), at)?;
        }
        let Some(row) = self.continued(at)? else { return Ok(()) };
        let (row, line, hash) = row;
        let next = files::next(dir);
        let made = files::create(&next).and_then(|mut file| {
            file.write_all(line.as_bytes())?;
            file.sync_all()?;
            Ok(file)
        });
        // Without room for the next file the present one grows on: its rows are written, and that is what counts.
        let Ok(file) = made else { return Ok(()) };
        let moved = fs::rename(files::active(dir), files::closed_at(dir, self.first))
            .and_then(|()| fs::rename(&next, files::active(dir)))
            .and_then(|()| files::sync_dir(dir));
        if let Err(source) = moved {
            self.poisoned = true;
            return Err(AuditError::Io { path: files::active(dir), doing: "go on in the next file", source });
        }
        self.file = Some(file);
        self.first = row.n;
        self.size = line.len() as u64;
        self.since_checkpoint = 0;
        self.took(row, hash);
        Ok(())
    }

    #[allow(clippy::type_complexity, reason = "a row, its line and its hash")]
    fn continued(&self, at: u64) -> Result<Option<(super::Row, String, super::row::Hash)>, AuditError> {
        let (Some(signature), Some(signer)) = (self.signature(), &self.signer) else { return Ok(None) };
        let key = data_encoding::HEXLOWER.encode(&signer.public());
        let detail = json!({ "chain": self.chain, "key": key, "signature": signature });
        self.next_row(at, "hapax", Action::Continued, "", detail).map(Some)
    }
}

impl Audit {
    /// The first row of a file that a crash left unmade.
    pub(super) fn go_on(&self, key: &str) -> Result<(), AuditError> {
        let Some(dir) = &self.dir else { return Ok(()) };
        let at = self.clock.now().0;
        let broken = |what: &str| AuditError::Row(what.to_owned());
        let last = files::closed(dir).ok().and_then(|closed| closed.last().cloned());
        let last = last.ok_or_else(|| broken("the file before it is gone"))?;
        let proved = super::verify(&last, Some(key)).map_err(|source| AuditError::Io {
            path: last.clone(),
            doing: "read it",
            source,
        })?;
        let proved = proved.map_err(|bad| AuditError::Broken { path: last, bad })?;
        let mut inner = self.inner.lock();
        inner.chain.clone_from(&proved.chain);
        let Some((row, line, hash)) = inner.continued(at)? else { return Ok(()) };
        let Some(file) = &mut inner.file else { return Ok(()) };
        let written = file.write_all(line.as_bytes()).and_then(|()| file.sync_data());
        written.map_err(|source| AuditError::Io { path: files::active(dir), doing: "write a row", source })?;
        inner.first = row.n;
        inner.size = line.len() as u64;
        inner.took(row, hash);
        Ok(())
    }

    /// Lets closed files go whose last row is older than rows are kept; how many. A signed row says so first: files that
    /// are missing without such a row were taken away by somebody else.
    pub fn let_go(&self) -> Result<usize, AuditError> {
        let (Some(dir), Some(keep)) = (&self.dir, self.options.keep) else { return Ok(0) };
        let failed = |doing: &'static str| move |source| AuditError::Io { path: dir.clone(), doing, source };
        let at = self.clock.now().0;
        let oldest = at.saturating_sub(u64::try_from(keep.as_millis()).unwrap_or(u64::MAX));
        let mut old = Vec::new();
        let mut up_to = 0;
        for path in files::closed(dir).map_err(failed("list the files of the chain"))? {
            let last = files::last_rows(&path, 1).map_err(failed("read a file of the chain"))?.pop();
            // From the oldest on and without a hole; what cannot be read stays, as evidence.
            let Some((row, _)) = last.filter(|(row, _)| row.at < oldest) else { break };
            up_to = row.n;
            old.push(path);
        }
        if old.is_empty() {
            return Ok(0);
        }
        self.append("hapax", Action::LetGo, "", json!({ "up_to": up_to, "files": old.len() }))?;
        self.checkpoint()?;
        for path in &old {
            fs::remove_file(path).map_err(failed("remove a file that is let go"))?;
        }
        files::sync_dir(dir).map_err(failed("sync it"))?;
        Ok(old.len())
    }
}
