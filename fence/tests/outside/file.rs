//! Files.

use std::{fs, path::PathBuf, sync::Arc};

use tempfile::TempDir;
use tenure_core::{FencingToken, async_trait};
use tenure_fence::{Refusal, file::FencedFile};

use crate::{
    crew::loses_nothing,
    resource::{Client, Resource, State, Wrong, unknown},
};

struct Files {
    folder: TempDir,
    fence: bool,
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Files")
    }
}

struct Own {
    path: PathBuf,
    fence: bool,
}

pub(crate) fn files(fence: bool) -> Arc<dyn Resource> {
    Arc::new(Files { folder: tempfile::tempdir().expect("a folder"), fence })
}

#[async_trait]
impl Resource for Files {
    async fn client(&self) -> Result<Box<dyn Client>, String> {
        Ok(Box::new(Own { path: self.folder.path().join("state"), fence: self.fence }))
    }

    fn cut(&self, _: bool) {}
}

#[async_trait]
impl Client for Own {
    async fn read(&mut self, token: FencingToken) -> Result<State, Wrong> {
        let content = match self.fence {
            true => FencedFile::new(&self.path).read(token).map_err(wrong)?,
            false => fs::read(&self.path).ok(),
        };
        Ok(content.map(State::parse).unwrap_or_default())
    }

    async fn write(&mut self, token: FencingToken, state: &State) -> Result<(), Wrong> {
        match self.fence {
            true => FencedFile::new(&self.path).write(token, state.text().as_bytes()).map_err(wrong),
            false => fs::write(&self.path, state.text()).map_err(unknown),
        }
    }
}

fn wrong(refusal: Refusal<std::io::Error>) -> Wrong {
    match refusal {
        Refusal::Fenced(fenced) => Wrong::Fenced(fenced),
        Refusal::Failed(error) => panic!("{error}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_workers_lose_nothing_in_a_file() {
    loses_nothing(files(true)).await;
}
